"""The transaction unit against a model: whatever aborts, dies, freezes or is lost, every record counts once.

Real code: Group, Unit, Transactions, Store, Restorer, Batch. Two machines take the unit from each other, with the
local state they have, with none, or with an older copy; calls to the broker fail in every way they can, and a process
may end between any two steps. After every step the committed outputs, the changelogs, the group's offset and every
local store must be those of one fold over a prefix of the source.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Message
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from streams.engine import Crash, EngineConfig, Refused, former, mending, restore
from streams.engine import unit as unit_module
from streams.engine.batch import Batch, TableSpec
from streams.engine.changelog import SourceMark, source_of
from streams.engine.errors import Aborted, Closed
from streams.engine.group import Group
from streams.engine.inspection import look_local
from streams.engine.logs import Logs
from streams.engine.mending import Mender
from streams.engine.restore import Restorer
from streams.engine.rows import TableRows
from streams.engine.store import StoreState
from streams.engine.transaction import Transactions
from streams.engine.unit import Unit

from .broker import Broker, Fate, Fault, Killed, ModelConsumer, ModelLogs, ModelProducer
from .copies import copy_state
from .fakes import GROUP, Owner, config

SOURCE, OUT = "source", "out"
COUNTS, LAST = (TableSpec.of(GROUP, name) for name in ("counts", "last"))
KEYS = [b"a", b"b", b"c"]
Tables = dict[str, dict[bytes, bytes]]

#: RocksDB syncs whenever it opens; where files can lie in memory there is no disk to wait for.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

KINDS = ["abort", "fatal", "lost", "unanswered", "kill", "kill_after"]
STARTING = [Fault(kind, "init") for kind in KINDS] + [Fault("kill", "restoring", skip) for skip in range(4)]
COMMITTING = st.one_of(
    # The decisive call as often as all others together.
    st.sampled_from([Fault(kind, "commit") for kind in KINDS]),
    st.sampled_from([Fault(f"torn {bits}", "commit") for bits in range(1, 8)]),
    st.sampled_from(
        [
            *(Fault(kind, call) for call in ("begin", "offsets", "flush", "abort") for kind in KINDS),
            *(Fault(kind, "produce", skip) for kind in KINDS for skip in (0, 1, 5)),
        ]
    ),
    st.sampled_from(
        [Fault("kill", name) for name in ("produced", "flushed", "before_commit", "committed", "stored", "persisted")]
    ),
)
Records = list[tuple[bytes, bytes]]
RECORDS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from([b"one", b"twice", b"delete"])), min_size=1, max_size=5
)
FAULTS = st.just(list[Fault]()) | st.lists(COMMITTING, min_size=1, max_size=2)
STATES = st.sampled_from(["kept", "kept", "lost", "older"])
NUMBERS = st.sampled_from([0, 0, 0, 1])


def fold(tables: Mapping[str, Any], key: bytes, value: bytes, offset: int) -> list[bytes]:
    """Apply one source record; return its outputs. ``tables`` are dictionaries or overlays, both by name.

    ``counts`` counts every record of a key, ``last`` holds the last one's offset until a record deletes it.
    """
    count = int(tables["counts"].get(key) or b"0") + 1
    _put(tables["counts"], key, b"%d" % count)
    _put(tables["last"], key, None if value == b"delete" else b"%d" % offset)
    return [b"%d %s %d" % (offset, key, count)] * (2 if value == b"twice" else 1)


def _put(table: Any, key: bytes, value: bytes | None) -> None:
    if not isinstance(table, dict):
        table.set(key, value)
    elif value is None:
        table.pop(key, None)
    else:
        table[key] = value


@dataclass
class Worker:
    """A process at work: its unit, and the offset it reads next."""

    config: EngineConfig
    unit: Unit
    position: int

    def rows(self, table: TableSpec) -> dict[bytes, bytes]:
        """What an agent would see: rows in memory and on disk, without flushing."""
        found = {key: self.unit.store.table(table.prefix).get(key) for key in KEYS}
        return {key: value for key, value in found.items() if value is not None}


class Model(RuleBasedStateMachine):
    #: How the engine is broken on purpose.
    mutant: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="engine-model-", dir=MEMORY))
        self.patches = pytest.MonkeyPatch()
        self.patches.setattr(restore, "Consumer", self._consumer)
        self.patches.setattr(mending, "read_stretches", self._read_stretches)
        self.patches.setattr(mending, "read", self._read)
        self.patches.setattr(former, "read", self._read)
        if self.mutant is not None:
            type(self).mutant(self.patches)
        self.broker = Broker()
        self.pool = ThreadPoolExecutor(1)
        self.machines: dict[int, Worker | None] = {0: None, 1: None}
        self.state_dirs = {number: self.folder / f"machine-{number}" for number in self.machines}
        self.copies: list[Path] = []
        self.abandoned: list[Unit] = []
        self.made = 0
        #: Tables and outputs after each number of records, by folding alone.
        self.tables: list[Tables] = [{"counts": {}, "last": {}}]
        self.outputs: list[list[bytes]] = [[]]

    def _consumer(self, *_: Any, **__: Any) -> ModelConsumer:
        return ModelConsumer(self.broker)

    def _read_stretches(self, _: Any, stretches: Any, *, undecided: bool = False) -> Any:
        return self.broker.read(stretches, undecided=undecided)

    def _read(self, _: Any, topic: str, partition: int, start: int, end: int, *, undecided: bool = False) -> Any:
        return self.broker.read({(topic, partition): (start, end)}, undecided=undecided)[topic, partition]

    def teardown(self) -> None:
        self.broker.arm()
        for worker in self.machines.values():
            if worker is not None:
                worker.unit.close(0)
        for unit in self.abandoned:
            unit.close(0)
        self.pool.shutdown()
        self.patches.undo()
        shutil.rmtree(self.folder, ignore_errors=True)

    # What happens.

    def _feed(self, records: Records) -> None:
        log = self.broker.log(SOURCE)
        for key, value in records:
            tables = {name: dict(rows) for name, rows in self.tables[-1].items()}
            self.outputs.append([*self.outputs[-1], *fold(tables, key, value, log.end)])
            self.tables.append(tables)
            log.append(key, value, Fate.COMMITTED)

    @rule(number=NUMBERS, state=STATES, lagging=st.booleans(), fault=st.none() | st.sampled_from(STARTING))
    def restart(self, number: int, state: str, lagging: bool, fault: Fault | None) -> None:
        """Start a worker, also beside another one, which is a zombie from then on."""
        if self.machines[number] is not None:
            self._kill(number)
        self._start(number, state, lagging, fault)

    def _start(self, number: int, state: str = "kept", lagging: bool = True, fault: Fault | None = None) -> None:
        folder = self.state_dirs[number]
        if state == "lost":
            shutil.rmtree(folder, ignore_errors=True)
        elif state == "older" and self.copies:
            shutil.rmtree(folder, ignore_errors=True)
            copy_state(self.copies[0], folder)
        made = config(
            folder, operation_timeout=0.0, failpoint=self.broker.failpoint, cache_bytes=4000,
            flush_interval=3600.0 if lagging else 0.0, transaction_timeout=0.01, hanging_timeout=0.02,
        )  # fmt: skip
        group = Group(
            made, [SOURCE], [COUNTS, LAST], [OUT], self.pool,
            lambda settings, partition: cast(Any, ModelProducer(self.broker, f"{settings.group}-{partition}")),
            lambda _: cast(Logs, ModelLogs(self.broker)),
        )  # fmt: skip
        group.check()
        group.units = group.create_units({0: [SOURCE]}, "metadata")
        unit = group.units[0]
        self.machines[number] = Worker(made, unit, -1)
        self.broker.arm(*([] if fault is None else [fault]))
        try:
            unit.fence()
            self.broker.settle()  # as far as nobody has decided it meanwhile; the guard would refuse
            unit.committed[SOURCE] = self.broker.group.get(SOURCE)
            group.restore(group.units, lambda restored: setattr(restored, "restored", True))
        except Killed:
            self._kill(number)
        except Crash:
            self._stop(number)
        else:
            assert unit.restored
            self.broker.harmed = False
            self.machines[number] = Worker(made, unit, unit.start_at[SOURCE])
        finally:
            self.broker.arm()

    @rule(number=NUMBERS, batches=st.lists(st.tuples(RECORDS, st.integers(1, 4), FAULTS), min_size=1, max_size=5))
    def process(self, number: int, batches: list[tuple[Records, int, list[Fault]]]) -> None:
        """A worker, zombie or not, takes batches through its agent and commits them."""
        if self.machines[number] is None:
            self._start(number)
        for records, most, faults in batches:
            self._feed(records)
            if self.machines[number] is not None:
                self._process(number, most, faults)
                self.outputs_are_the_fold_of_what_is_processed_once_and_in_order()

    def _process(self, number: int, most: int, faults: list[Fault]) -> None:
        worker = self.machines[number]
        assert worker is not None
        entries = self.broker.log(SOURCE).committed(worker.position)[:most]
        if not entries:
            return
        messages = [Message(topic=SOURCE, partition=0, offset=e.offset, key=e.key, value=e.value) for e in entries]
        batch = Batch(
            config=worker.config, rows=worker.unit.store, owner=Owner(), topic=SOURCE,
            topic_id=f"id-of-{SOURCE}", partition=0, records=messages,
        )  # fmt: skip
        overlays = {table.name: batch.overlay(table) for table in (COUNTS, LAST)}
        for entry in entries:
            assert entry.key is not None
            assert entry.value is not None
            for output in fold(overlays, entry.key, entry.value, entry.offset):
                batch.send(OUT, output, entry.key, 0, record=messages[entries.index(entry)])
        self.broker.arm(*faults)
        # What hangs does so since a coordinator's restart: whatever follows takes long.
        self.patches.setattr(unit_module, "SLOW_TRANSACTION", 0.0 if self.broker.hung_anywhere else 3600.0)
        try:
            worker.unit.commit(batch)
            worker.position = batch.next_offset
        except Aborted:
            pass  # the same records again
        except (Crash, Closed, Refused):
            self._stop(number)
        except Killed:
            self._kill(number)
        finally:
            self.broker.arm()

    @rule(number=NUMBERS)
    def flush(self, number: int) -> None:
        """What an idle worker does with its store."""
        worker = self.machines[number]
        if worker is not None:
            worker.unit.flush()

    @rule(number=NUMBERS, how=st.sampled_from(["stop", "kill"]))
    def end(self, number: int, how: str) -> None:
        worker = self.machines[number]
        if worker is None:
            return
        if how == "stop":
            self._stop(number)
        else:
            self._kill(number)

    @precondition(lambda self: self.broker.group and not self.broker.harmed)
    @rule()
    def expire_group_offsets(self) -> None:
        self.broker.group.clear()

    @precondition(lambda self: not self.broker.harmed)
    @rule()
    def compact(self) -> None:
        for table in (COUNTS, LAST):
            self.broker.log(table.changelog).compact()

    def _stop(self, number: int) -> None:
        worker = self.machines[number]
        assert worker is not None
        self.machines[number] = None
        worker.unit.close(0)
        self._copied(number, restored=worker.position >= 0)

    def _kill(self, number: int) -> None:
        """What was written survives the process, what was in memory does not."""
        worker = self.machines[number]
        assert worker is not None
        self.machines[number] = None
        self.abandoned.append(worker.unit)
        self.made += 1
        after = self.folder / f"machine-{number}-{self.made}"
        before = self.state_dirs[number]
        self.state_dirs[number] = after
        if before.exists():
            copy_state(before, after)
            self._copied(number, restored=worker.position >= 0)

    def _copied(self, number: int, *, restored: bool) -> None:
        """Check what is on disk, and keep a few copies as the old ones of later."""
        folder = self.state_dirs[number]
        if (folder / "0" / "CURRENT").exists():
            if restored:
                self._check_disk(folder)
            if len(self.copies) < 2:
                self.made += 1
                self.copies.append(copy_state(folder, self.folder / f"copy-{self.made}"))

    # What must hold.

    @property
    def processed(self) -> int:
        return self.broker.processed.get(SOURCE, 0)

    @invariant()
    def outputs_are_the_fold_of_what_is_processed_once_and_in_order(self) -> None:
        if self.broker.harmed:
            return
        assert [entry.value for entry in self.broker.log(OUT).committed()] == self.outputs[self.processed]

    @invariant()
    def changelogs_are_the_tables_and_say_how_far(self) -> None:
        if self.broker.harmed:
            return
        marks: dict[str, SourceMark] = {}
        for table in (COUNTS, LAST):
            rows: dict[bytes, bytes] = {}
            for entry in self.broker.log(table.changelog).committed():
                assert entry.key is not None
                topic = source_of(entry.key)
                if topic is None:
                    _put(rows, entry.key, entry.value)
                elif entry.value is not None:
                    marks[topic] = SourceMark.decode(entry.value)
            assert rows == self.tables[self.processed][table.name]
        assert (marks[SOURCE].offset if marks else 0) == self.processed

    @invariant()
    def the_group_has_no_other_offset(self) -> None:
        assert self.broker.group.get(SOURCE, self.processed) == self.processed

    @invariant()
    def no_store_leads_and_each_is_a_fold(self) -> None:
        for worker in self.machines.values():
            if worker is not None:
                state = worker.unit.store.state
                assert state is not None
                self._check_state(state)
                at = state.sources[SOURCE].offset if state.sources else 0
                assert at == worker.position
                assert {table.name: worker.rows(table) for table in (COUNTS, LAST)} == self.tables[at]

    def _check_state(self, state: StoreState) -> None:
        assert (state.sources[SOURCE].offset if state.sources else 0) <= self.processed
        for topic, position in state.changelogs.items():
            assert position.offset <= self._answered(topic)

    def _answered(self, topic: str) -> int:
        """How far a local copy may be: what was answered is in it, though it may hang."""
        log = self.broker.log(topic)
        return log.end if self.broker.harmed else log.stable

    def _check_disk(self, folder: Path) -> None:
        found: Tables = {}
        at = 0
        for table in (COUNTS, LAST):
            with look_local(config(folder), table.name, 0) as look:
                assert look.reach.offset <= self._answered(table.changelog)
                found[table.name] = dict(look.scan(b""))
                at = look.reach.sources.get(SOURCE, 0)
        assert at <= self.processed
        assert found == self.tables[at]


QUICK = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
    print_blob=True,
)


def test_given_anything_at_all_then_every_record_counts_once() -> None:
    run_state_machine_as_test(Model, settings=QUICK)


# The model must object to an engine broken on purpose.


def rows_before_the_commit(patches: pytest.MonkeyPatch) -> None:
    commit = Unit.commit

    def broken(unit: Unit, batch: Batch) -> float:
        assert unit.store.state is not None
        for overlay in batch.overlays.values():
            unit.store.table(overlay.prefix).put(overlay.writes)
        return commit(unit, batch)

    patches.setattr(Unit, "commit", broken)


def unknown_outcomes_taken_for_aborts(patches: pytest.MonkeyPatch) -> None:
    classified = Transactions._sorted

    def broken(self: Transactions, error: Any, what: str, **options: Any) -> Any:
        if error.args[0].retriable():
            return Aborted(what)
        return classified(self, error, what, **options)

    patches.setattr(Transactions, "_sorted", broken)


def no_replay(patches: pytest.MonkeyPatch) -> None:
    planned = Restorer._plan

    def broken(self: Restorer, unit: Unit, *arguments: Any) -> list[Any]:
        planned(self, unit, *arguments)
        return []

    patches.setattr(Restorer, "_plan", broken)


def a_position_without_its_rows(patches: pytest.MonkeyPatch) -> None:
    """A write-behind that moves the store's position on before the rows are there."""
    patches.setattr(TableRows, "take_dirty", lambda _: [])


def nothing_is_mended(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(Mender, "doubtful", lambda *_: [])


def outputs_are_not_mended(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(mending, "outputs_seen", lambda *_: True)
    patches.setattr(mending, "outputs_lost", lambda *_: [])


def an_abort_is_never_doubted(patches: pytest.MonkeyPatch) -> None:
    patches.setattr(Unit, "_long_answered", False)


@pytest.mark.parametrize(
    "mutant",
    [
        rows_before_the_commit,
        unknown_outcomes_taken_for_aborts,
        no_replay,
        a_position_without_its_rows,
        nothing_is_mended,
        outputs_are_not_mended,
        an_abort_is_never_doubted,
    ],
)
def test_given_a_broken_engine_then_the_model_objects(mutant: Any) -> None:
    # The same examples at each run, and of several tried ones those in which all of them are found soon.
    broken = seed(2)(type("Broken", (Model,), {"mutant": staticmethod(mutant)}))
    until_found = settings(QUICK, max_examples=1_000, phases=[Phase.generate], database=None)
    with pytest.raises((AssertionError, Refused, Crash)):
        run_state_machine_as_test(broken, settings=until_found)

"""Lives of one unit, one after the other: builds with other tables, and operators who set the group's offset."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Message

from streams.engine import Refused, former, mending, restore
from streams.engine.batch import Batch, TableSpec
from streams.engine.changelog import SourceMark, source_key, source_of
from streams.engine.errors import Disagreement
from streams.engine.group import Group
from streams.engine.unit import Unit

from .broker import Broker, Fate, Fault, Killed, ModelConsumer, ModelLogs, ModelProducer
from .copies import copy_state
from .fakes import GROUP, Owner, config

SOURCE, OUT = "source", "out"
COUNTS, LAST = (TableSpec.of(GROUP, name) for name in ("counts", "last"))
BOTH = [COUNTS, LAST]


class World:
    """A broker, and one machine's folder."""

    def __init__(self, folder: Path) -> None:
        self.broker = Broker()
        self.folder = folder
        self.kept = folder.with_name("kept")

    def feed(self, records: int) -> None:
        for number in range(records):
            self.broker.log(SOURCE).append(b"k%d" % number, b"v", Fate.COMMITTED)

    @contextmanager
    def life(
        self, tables: Sequence[TableSpec], *, trust: bool = False, fault: Fault | None = None, killed: bool = False
    ) -> Iterator[Unit]:
        """One life of a worker of a build with these tables. ``killed``: what is in memory at its end is lost."""
        settings = config(
            self.folder, operation_timeout=0.0, failpoint=self.broker.failpoint, trust_group_offsets=trust,
            flush_interval=3600.0, transaction_timeout=0.01, hanging_timeout=0.02,
        )  # fmt: skip
        with ThreadPoolExecutor(1) as pool:
            group = Group(
                settings, [SOURCE], tables, [OUT], pool,
                lambda made, partition: cast(Any, ModelProducer(self.broker, f"{made.group}-{partition}")),
                lambda _: cast(Any, ModelLogs(self.broker)),
            )  # fmt: skip
            group.check()
            group.units = group.create_units({0: [SOURCE]}, "metadata")
            unit = group.units[0]
            self.broker.arm(*([] if fault is None else [fault]))
            try:
                unit.fence()
                unit.committed[SOURCE] = self.broker.group.get(SOURCE)
                group.restore(group.units, lambda restored: setattr(restored, "restored", True))
                yield unit
            finally:
                if killed or fault is not None:
                    copy_state(self.folder, self.kept)
                unit.close(0)
                if self.kept.exists():
                    shutil.rmtree(self.folder)
                    self.kept.rename(self.folder)

    def process(self, unit: Unit, tables: Sequence[TableSpec], most: int) -> None:
        """Commit so many records, one a batch, each with a row in every table and an output."""
        for entry in self.broker.log(SOURCE).committed(unit.start_at[SOURCE])[:most]:
            message = Message(topic=SOURCE, partition=0, offset=entry.offset, key=entry.key, value=entry.value)
            batch = Batch(
                config=config(self.folder), rows=unit.store, owner=Owner(), topic=SOURCE,
                topic_id=unit.sources[SOURCE], partition=0, records=[message],
            )  # fmt: skip
            assert entry.key is not None
            for table in tables:
                batch.overlay(table).set(entry.key, b"%d" % entry.offset)
            batch.send(OUT, b"%d" % entry.offset, entry.key, 0, record=message)
            unit.commit(batch)

    def live(self, tables: Sequence[TableSpec], records: int) -> None:
        """One life in which so many new records come, and are all processed."""
        self.feed(records)
        with self.life(tables) as unit:
            self.process(unit, tables, records)

    def lose_disk(self) -> None:
        shutil.rmtree(self.folder)

    def outputs(self) -> list[int]:
        return [int(entry.value or b"") for entry in self.broker.log(OUT).committed()]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "state")

    def read(_: Any, topic: str, partition: int, start: int, end: int, *, undecided: bool = False) -> Any:
        return made.broker.read({(topic, partition): (start, end)}, undecided=undecided)[topic, partition]

    monkeypatch.setattr(restore, "Consumer", lambda *_, **__: ModelConsumer(made.broker))
    monkeypatch.setattr(
        mending,
        "read_stretches",
        lambda _, stretches, *, undecided=False: made.broker.read(stretches, undecided=undecided),
    )
    monkeypatch.setattr(mending, "read", read)
    monkeypatch.setattr(former, "read", read)
    return made


# An operator sets the group's offset, and says once that it is to be trusted.


def rewound(world: World) -> None:
    """20 records are processed, and the group is set back to the sixth."""
    world.feed(20)
    with world.life([COUNTS]) as unit:
        world.process(unit, [COUNTS], 20)
    world.broker.group[SOURCE] = 5
    with pytest.raises(Disagreement, match="offset is 5, the changelog says 20"), world.life([COUNTS]):
        pass


def test_given_a_rewind_that_was_trusted_then_later_starts_go_on_from_it_whatever_their_copy_says(world: World) -> None:
    rewound(world)
    with world.life([COUNTS], trust=True, killed=True) as unit:
        assert unit.start_at == {SOURCE: 5}
        world.process(unit, [COUNTS], 3)
    with world.life([COUNTS], killed=True) as unit:
        assert unit.start_at == {SOURCE: 8}
    world.broker.group.clear()
    with world.life([COUNTS], killed=True) as unit:
        assert unit.start_at == {SOURCE: 8}
    world.lose_disk()
    with world.life([COUNTS]) as unit:
        assert unit.start_at == {SOURCE: 8}
        world.process(unit, [COUNTS], 20)
    assert world.outputs() == [*range(20), *range(5, 20)]


@pytest.mark.parametrize("fault", [None, Fault("kill", "committed")], ids=["stopped", "killed"])
def test_given_a_trusted_start_that_processes_nothing_then_the_next_one_needs_no_trust(
    world: World, fault: Fault | None
) -> None:
    rewound(world)
    try:
        with world.life([COUNTS], trust=True, fault=fault):
            assert fault is None
    except Killed:
        assert fault is not None
    with world.life([COUNTS]) as unit:
        assert unit.start_at == {SOURCE: 5}


def test_given_a_trusted_start_that_dies_before_anything_says_so_then_trust_is_asked_for_again(world: World) -> None:
    rewound(world)
    with pytest.raises(Killed), world.life([COUNTS], trust=True, fault=Fault("kill", "begin")):
        pass
    with pytest.raises(Disagreement), world.life([COUNTS]):
        pass
    with world.life([COUNTS], trust=True) as unit:
        assert unit.start_at == {SOURCE: 5}


def test_given_a_trusted_start_that_dies_over_its_record_then_the_next_one_writes_it(world: World) -> None:
    rewound(world)
    with pytest.raises(Killed), world.life([COUNTS], trust=True, fault=Fault("kill", "commit")):
        pass
    with world.life([COUNTS]) as unit:
        assert unit.start_at == {SOURCE: 5}


def test_given_a_rewind_of_which_the_record_is_taken_back_then_it_is_written_again(world: World) -> None:
    rewound(world)
    torn = Fault("torn 1", "commit")
    with world.life([COUNTS], trust=True, fault=torn):
        pass
    # The next fencing aborts what hangs of it; the group's offset, its other part, proves that it was committed.
    for topic, entries in world.broker.hung.pop(f"{GROUP}-0").items():
        for entry in entries:
            entry.fate = Fate.ABORTED
        world.broker.log(topic).append(None, None, Fate.ABORTED, marker=True)
    with world.life([COUNTS]) as unit:
        assert unit.start_at == {SOURCE: 5}


def test_given_a_recreated_changelog_that_was_trusted_then_the_next_start_needs_no_trust(world: World) -> None:
    world.live(BOTH, 3)
    world.broker.recreate(LAST.changelog)
    with pytest.raises(Refused, match=r"'last'.*recreated"), world.life(BOTH):
        pass
    with world.life(BOTH, trust=True):
        pass
    with world.life(BOTH) as unit:
        assert unit.start_at == {SOURCE: 3}


def test_given_nothing_to_record_then_a_start_writes_nothing(world: World) -> None:
    world.feed(3)
    for trust in (False, True):
        with world.life([COUNTS], trust=trust):
            pass
    assert world.broker.log(COUNTS.changelog).end == 0
    with world.life([COUNTS]) as unit:
        world.process(unit, [COUNTS], 2)
    end = world.broker.log(COUNTS.changelog).end
    for trust in (False, True):
        with world.life([COUNTS], trust=trust) as unit:
            assert unit.start_at == {SOURCE: 2}
    assert world.broker.log(COUNTS.changelog).end == end


# Tables come and go, and the marks are in the changelog of the first.


def nothing(_: World) -> None:
    """The partition stays where it is."""


@pytest.mark.parametrize("then", [nothing, World.lose_disk], ids=["same disk", "another disk"])
@pytest.mark.parametrize(
    ("before", "after"),
    [(BOTH, [LAST]), ([LAST], BOTH), (BOTH, [COUNTS]), ([], [COUNTS]), ([COUNTS], []), ([COUNTS], [LAST])],
    ids=["first removed", "first added", "last removed", "tables at last", "tables no more", "all others"],
)
def test_given_a_build_with_other_tables_and_back_then_every_record_is_processed_once(
    world: World, before: list[TableSpec], after: list[TableSpec], then: Callable[[World], None]
) -> None:
    world.feed(8)
    for number, tables in enumerate([before, after, before, after]):
        with world.life(tables) as unit:
            assert unit.start_at == {SOURCE: number * 2}
            world.process(unit, tables, 2)
        then(world)
        # Also while the group's offsets are expired.
        if number == 1:
            world.broker.group.clear()
    assert world.outputs() == list(range(8))


def test_given_a_table_removed_and_nothing_to_process_then_its_changelog_may_be_deleted(world: World) -> None:
    world.live(BOTH, 3)
    world.lose_disk()
    with world.life([LAST]) as unit:
        assert unit.start_at == {SOURCE: 3}
    del world.broker.logs[COUNTS.changelog]
    world.lose_disk()
    with world.life([LAST]) as unit:
        assert unit.start_at == {SOURCE: 3}


def test_given_a_table_removed_with_its_changelog_then_refused_and_no_way_out_begins_anew(world: World) -> None:
    world.live(BOTH, 3)
    world.lose_disk()
    del world.broker.logs[COUNTS.changelog]
    with pytest.raises(Disagreement, match=r"a removed table.*Do not delete the group's offsets"), world.life([LAST]):
        pass


def test_given_the_changelog_of_another_group_with_a_longer_name_then_its_marks_are_not_taken(world: World) -> None:
    world.feed(3)
    other = TableSpec.of(f"{GROUP}-x", "rows")
    mark = SourceMark(f"id-of-{SOURCE}", 2, 1, (("rows", f"id-of-{other.changelog}"),))
    world.broker.log(other.changelog).append(source_key(SOURCE), mark.encode(), Fate.COMMITTED)
    with world.life([COUNTS]) as unit:
        assert unit.start_at == {SOURCE: 0}


def test_given_a_source_that_was_recreated_then_marks_left_in_a_removed_table_say_nothing_of_it(world: World) -> None:
    world.live([COUNTS], 3)
    world.lose_disk()
    world.broker.recreate(SOURCE)
    world.broker.group.clear()
    world.feed(1)
    with world.life([LAST]) as unit:
        assert unit.start_at == {SOURCE: 0}


def test_given_a_rewind_and_then_other_tables_then_marks_of_before_the_rewind_are_older(world: World) -> None:
    world.feed(20)
    with world.life([LAST]) as unit:
        world.process(unit, [LAST], 20)
    world.broker.group[SOURCE] = 5
    with world.life(BOTH, trust=True) as unit:
        world.process(unit, BOTH, 1)
    world.lose_disk()
    for tables in ([LAST], BOTH):
        with world.life(tables) as unit:
            assert unit.start_at == {SOURCE: 6}
        world.lose_disk()


def test_given_a_unit_that_has_started_with_other_tables_then_the_end_of_its_changelog_says_where_it_is(
    world: World,
) -> None:
    """So a start looks no further back for what its last transaction may have lost."""
    world.live(BOTH, 3)
    with world.life([LAST]):
        pass
    newest = world.broker.log(LAST.changelog).committed()[-1]
    assert newest.key is not None
    assert source_of(newest.key) == SOURCE


def test_given_a_table_that_is_declared_again_then_it_has_the_rows_of_its_changelog_and_no_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "DROPPED_AT_ONCE", 2)
    world.feed(5)
    with world.life(BOTH) as unit:
        world.process(unit, BOTH, 3)
    with world.life([COUNTS]) as unit:
        world.process(unit, [COUNTS], 1)
    world.broker.recreate(LAST.changelog)
    with world.life(BOTH) as unit:
        assert list(unit.store.scan(LAST.prefix)) == []
        assert len(list(unit.store.scan(COUNTS.prefix))) == 4
        world.process(unit, BOTH, 1)
        assert unit.store.table(LAST.prefix).get(b"k4") == b"4"

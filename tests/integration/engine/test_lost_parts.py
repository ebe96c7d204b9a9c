"""A committed transaction of which an abort took parts back, on a real broker: the next start writes them again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from streams.engine import Refused
from streams.engine.errors import Disagreement
from streams.engine.logs import Logs
from streams.engine.resume import LogRange
from streams.local import KafkaCluster
from tests.faults.engine.brokers import NO_VERIFICATION
from tests.integration.projections.world import eventually
from tests.kafka import read_all
from tests.stack import unique

from .lab import Lab
from .torn import BEFORE, DOUBT, PARTITION, aborts, commits, process

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.long]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), brokers=1, overrides=NO_VERIFICATION) as made:
        yield made


@pytest.fixture
def lab(broker: KafkaCluster, tmp_path: Path) -> Lab:
    made = Lab(broker.bootstrap, unique("lost"), tmp_path)
    process(made)
    return made


def committed(lab: Lab) -> int | None:
    return Logs(lab.config()).committed([(lab.source, PARTITION)])[lab.source, PARTITION]


def visible(lab: Lab) -> list[bytes | None]:
    return [message.value() for message in read_all(lab.bootstrap, lab.out, lab.partitions)]


def ends(lab: Lab) -> list[int]:
    """Where the unit's partitions end, once all is decided: an abort is answered before its markers are written."""
    logs = Logs(lab.config())
    topics = [lab.out, lab.table.changelog]
    facts = logs.describe(topics)
    found: list[LogRange] = []

    def decided() -> bool:
        found[:] = logs.ranges([(topic, PARTITION) for topic in topics], facts).values()
        return all(log_range.stable >= log_range.end for log_range in found)

    eventually(decided, "nothing is undecided")
    return [log_range.end for log_range in found]


def goes_on(lab: Lab, begins: int) -> None:
    """A worker without a local copy, as another machine is, starts at ``begins`` and processes what is left."""
    offset = committed(lab)
    assert offset is not None
    with lab.worker(state_dir=lab.folder / "elsewhere") as worker:
        units = worker.restore({PARTITION: offset})
        assert units[PARTITION].start_at == {lab.source: begins}
        assert worker.rows(PARTITION) == {b"k": b"%d" % (begins - 1)}
        for number in range(begins, BEFORE + 2):
            worker.commit(PARTITION, number, {b"k": b"%d" % number})


@pytest.mark.parametrize("lost", [["output"], ["changelog"], ["output", "changelog"]], ids="-".join)
def test_given_parts_of_a_committed_transaction_that_an_abort_took_back_then_they_are_written_again(
    lab: Lab, lost: list[str]
) -> None:
    commits(lab, lost)
    aborts(lab, lost)
    if "output" in lost:
        assert b"%d" % DOUBT not in visible(lab)
    goes_on(lab, DOUBT + 1)
    assert visible(lab) == [b"%d" % number for number in range(BEFORE + 2)]
    before = ends(lab)
    with lab.worker() as worker:
        worker.restore({PARTITION: BEFORE + 2})
        assert worker.rows(PARTITION) == {b"k": b"%d" % (BEFORE + 1)}
    assert ends(lab) == before


class Died(Exception):
    """The process ended here."""


def test_given_a_death_while_they_are_written_again_then_the_next_start_does_it(lab: Lab) -> None:
    commits(lab, ["output", "changelog"])
    aborts(lab, ["output", "changelog"])

    def dies(name: str) -> None:
        if name == "written_again":
            raise Died

    with pytest.raises(Died), lab.worker(failpoint=dies) as worker:
        worker.restore({PARTITION: DOUBT + 1})
    assert b"%d" % DOUBT not in visible(lab)
    goes_on(lab, DOUBT + 1)
    assert visible(lab) == [b"%d" % number for number in range(BEFORE + 2)]


def test_given_a_transaction_that_was_really_aborted_then_nothing_is_written_again(lab: Lab) -> None:
    aborts(lab, ["output", "changelog"])
    before = ends(lab)
    with lab.worker() as worker:
        worker.restore({PARTITION: BEFORE})
        assert worker.rows(PARTITION) == {b"k": b"%d" % (BEFORE - 1)}
    assert ends(lab) == before
    goes_on(lab, BEFORE)
    assert visible(lab) == [b"%d" % number for number in range(BEFORE + 2)]


def test_given_a_group_offset_that_was_lost_as_well_then_the_record_is_processed_again_and_readers_drop_it(
    lab: Lab,
) -> None:
    commits(lab, ["changelog", "offsets"])
    aborts(lab, ["changelog", "offsets"])
    goes_on(lab, DOUBT)
    seen = visible(lab)
    assert seen.count(b"%d" % DOUBT) == 2
    assert set(seen) == {b"%d" % number for number in range(BEFORE + 2)}


def test_given_records_that_are_not_all_there_then_refused_and_the_way_out_is_to_accept_the_loss(lab: Lab) -> None:
    commits(lab, ["output"], says=2)
    aborts(lab, ["output"])
    before = ends(lab)
    told = r"2 outputs belong together, 1 are found.*trust_group_offsets"
    with pytest.raises(Refused, match=told), lab.worker() as worker:
        worker.restore({PARTITION: DOUBT + 1})
    assert ends(lab) == before
    with lab.worker(trust_group_offsets=True) as worker:
        worker.restore({PARTITION: DOUBT + 1})
        worker.commit(PARTITION, DOUBT + 1, {b"k": b"%d" % (DOUBT + 1)})
    with lab.worker() as worker:
        worker.restore({PARTITION: DOUBT + 2})


def test_given_a_changelogs_part_of_an_older_build_then_group_and_changelog_disagree_as_before(lab: Lab) -> None:
    commits(lab, ["changelog"], says=None)
    aborts(lab, ["changelog"])
    before = ends(lab)
    told = f"the group's offset is {DOUBT + 1}, the changelog says {DOUBT}"
    with pytest.raises(Disagreement, match=told), lab.worker() as worker:
        worker.restore({PARTITION: DOUBT + 1})
    assert ends(lab) == before


def test_given_a_local_copy_that_is_ahead_of_what_was_taken_back_then_it_is_rebuilt(lab: Lab) -> None:
    with lab.worker() as worker:
        unit = worker.restore({PARTITION: BEFORE})[PARTITION]
        state = unit.store.state
        assert state is not None
        ahead = replace(state.sources[lab.source], offset=DOUBT + 1)
        row = (lab.table.prefix + b"k", b"%d" % DOUBT)
        unit.store.load((row,), replace(state, sources={lab.source: ahead}))
    commits(lab, ["output", "changelog", "offsets"])
    aborts(lab, ["output", "changelog", "offsets"])
    with lab.worker() as worker:
        worker.restore({PARTITION: DOUBT})
        assert worker.rows(PARTITION) == {b"k": b"%d" % (DOUBT - 1)}
    goes_on(lab, DOUBT)
    assert visible(lab) == [b"%d" % number for number in range(BEFORE + 2)]

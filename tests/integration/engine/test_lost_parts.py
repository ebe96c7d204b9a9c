"""A committed transaction of which an abort took parts back, on a real broker: the next start writes them again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.engine.logs import Logs
from streams.local import KafkaCluster
from tests.faults.engine.brokers import NO_VERIFICATION
from tests.kafka import read_all
from tests.stack import unique

from .lab import Lab
from .torn import BEFORE, DOUBT, PARTITION, aborts, commits, process

pytestmark = [pytest.mark.services, pytest.mark.faults]


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
    logs = Logs(lab.config())
    found = logs.ranges(
        [(topic, PARTITION) for topic in (lab.out, lab.table.changelog)], logs.describe([lab.out, lab.table.changelog])
    )
    return [log_range.end for log_range in found.values()]


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

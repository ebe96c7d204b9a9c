"""A transaction that is committed in some of its partitions and hangs in others, on a real broker: settled by what
the others show, so that its output is visible once and its unit goes on from where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.engine import Refused, SourcePosition
from streams.engine.findings import Findings
from streams.engine.logs import Logs
from streams.engine.repair import find_hanging, settle_hanging
from streams.engine.topics import Needed
from streams.engine.verdict import verb
from streams.local import KafkaCluster
from tests.faults.engine.brokers import NO_VERIFICATION, Row, hang
from tests.kafka import read_all
from tests.stack import unique

from .lab import Lab
from .torn import BEFORE, DOUBT, PARTITION, commits, process

pytestmark = [pytest.mark.services, pytest.mark.faults, pytest.mark.long]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    with KafkaCluster(tmp_path_factory.mktemp("kafka"), brokers=1, overrides=NO_VERIFICATION) as made:
        yield made


@pytest.fixture
def lab(broker: KafkaCluster, tmp_path: Path) -> Lab:
    made = Lab(broker.bootstrap, unique("settle"), tmp_path)
    process(made)
    return made


def needed(lab: Lab) -> Needed:
    return Needed((), (lab.table.changelog,), (lab.out,))


def told(found: Findings) -> list[tuple[str, str]]:
    return [(item.role, verb(item.verdict)) for item in found.hanging]


def patient(lab: Lab) -> dict[str, float]:
    return {"transaction_timeout": 1.0, "hanging_timeout": 1.5}


def settle(lab: Lab) -> Findings:
    config = lab.config(**patient(lab))
    proposed = find_hanging(config, needed(lab))
    assert find_hanging(config, needed(lab)) == proposed, "looking changes nothing"
    settled = settle_hanging(config, needed(lab))
    assert settled == proposed
    assert find_hanging(config, needed(lab)).hanging == ()
    return settled


def goes_on(lab: Lab, begins: int) -> None:
    """A worker starts at the source offset ``begins``, and its state and all outputs are of each record once."""
    config = lab.config()
    offset = Logs(config).committed([(lab.source, PARTITION)])[lab.source, PARTITION]
    assert offset == begins
    with lab.worker() as worker:
        units = worker.restore({PARTITION: offset})
        assert units[PARTITION].start_at == {lab.source: begins}
        assert worker.rows(PARTITION) == {b"k": b"%d" % (begins - 1)}
        for number in range(begins, BEFORE + 2):
            worker.commit(PARTITION, number, {b"k": b"%d" % number})
        assert worker.rows(PARTITION) == {b"k": b"%d" % (BEFORE + 1)}
    visible = [message.value() for message in read_all(lab.bootstrap, lab.out, lab.partitions)]
    assert visible == [b"%d" % number for number in range(BEFORE + 2)]


@pytest.mark.parametrize(
    "hangs",
    [
        ["output"],
        ["changelog"],
        ["offsets"],
        ["output", "changelog"],
        ["output", "offsets"],
        ["changelog", "offsets"],
    ],
    ids="-".join,
)
def test_given_parts_of_a_committed_transaction_that_hang_then_they_are_committed_and_nothing_is_repeated(
    lab: Lab, hangs: list[str]
) -> None:
    commits(lab, hangs)
    settled = settle(lab)
    assert told(settled) == [(role, "commit") for role in hangs]
    assert not settled.outdates_copies
    goes_on(lab, DOUBT + 1)


def test_given_all_of_a_transaction_that_hangs_then_it_is_aborted_and_its_record_is_read_again(lab: Lab) -> None:
    commits(lab, ["output", "changelog", "offsets"])
    settled = settle(lab)
    assert told(settled) == [("output", "abort"), ("changelog", "abort"), ("offsets", "abort")]
    assert settled.outdates_copies
    goes_on(lab, DOUBT)


def test_given_a_part_of_another_app_in_a_shared_output_then_it_is_shown_and_left(lab: Lab) -> None:
    position = SourcePosition("another-source", "id", PARTITION, 0, 0)
    hang(lab.config(), f"{lab.prefix}-other-1", {(lab.out, PARTITION): [Row(b"k", b"v", [position.header()])]})
    config = lab.config(**patient(lab))
    found = settle_hanging(config, needed(lab))
    assert found.hanging == ()
    assert [item.transactional_id for item in found.foreign] == [f"{lab.prefix}-other-1"]
    assert find_hanging(config, needed(lab)) == found


def test_given_a_record_that_says_nothing_then_it_is_left_for_a_person(lab: Lab) -> None:
    hang(lab.config(), f"{lab.prefix}-{PARTITION}", {(lab.out, PARTITION): [Row(b"k", b"v")]})
    found = settle_hanging(lab.config(**patient(lab)), needed(lab))
    assert told(found) == [("output", "leave")]
    assert found.left == found.hanging


def test_given_a_slow_commit_and_an_undecided_output_then_the_unit_refuses_and_its_store_stays_behind(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.engine.unit.SLOW_TRANSACTION", 0.0)
    with lab.worker(**patient(lab)) as worker:
        worker.restore({PARTITION: BEFORE})
        worker.commit(PARTITION, BEFORE, {b"k": b"%d" % BEFORE})  # all is decided soon
        assert worker.rows(PARTITION) == {b"k": b"%d" % BEFORE}
        hang(lab.config(), f"{lab.prefix}-elsewhere", {(lab.out, PARTITION): [Row(b"k", b"v")]})
        with pytest.raises(Refused, match=rf"hanging transaction: {lab.out}\[{PARTITION}\] is undecided"):
            worker.commit(PARTITION, BEFORE + 1, {b"k": b"never stored"})
        assert worker.rows(PARTITION) == {b"k": b"%d" % BEFORE}

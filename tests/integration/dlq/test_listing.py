"""The list: one row a letter, bounded in a flood, the same whatever is replayed; marks and their audit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from projections.base import Record
from projections.dlq.desk import Chosen, Desk, Status
from projections.models import dead_letters
from projections.models.dead_letters import DeadLetterProjection
from schemas.events import DeadLetter
from schemas.placement import partition_of
from schemas.topics import DEAD_LETTERS, LIBRARY_COMMANDS
from streams.runtime.deadletter import dead_letter_key
from streams.runtime.errors import ConfigurationError
from tests.integration.dlq.office import Office

pytestmark = [pytest.mark.services, pytest.mark.long]

DAY_MS = 24 * 3_600_000
NOW_MS = 1_796_069_700_000


class Log:
    """dead.letters as a test has it: places letters, and folds them in batches."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._ends: dict[int, int] = {}
        self.records: list[Record[DeadLetter]] = []

    def append(self, *letters: DeadLetter, at_ms: int = NOW_MS, log_epoch: int = 1) -> list[Record[DeadLetter]]:
        made = []
        for letter in letters:
            partition = partition_of(dead_letter_key(letter.topic, letter.partition))
            offset = self._ends.get(partition, 0)
            self._ends[partition] = offset + 1
            made.append(Record(letter, partition, offset, log_epoch, at_ms, b""))
        self.records += made
        return made

    def fold(self, records: Sequence[Record[DeadLetter]], batch: int) -> None:
        projection = DeadLetterProjection()
        with self._office.world.connect("projector") as connection:
            for start in range(0, len(records), batch):
                projection.fold(records[start : start + batch], connection)
                connection.commit()


@pytest.fixture
def log(office: Office) -> Log:
    return Log(office)


def test_a_flood_of_one_origin_keeps_its_newest_letters_and_pushes_out_nobody_elses(
    office: Office, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "KEPT_OF_ONE_ORIGIN", 20)
    neighbour = office.letter(5, partition=3, consumer="agent.library")
    log.append(neighbour)
    log.append(*(office.letter(n, partition=3) for n in range(500)))
    log.fold(log.records, 64)

    kept = office.letters()
    assert {one.topic_offset for one in kept if one.consumer == "agent.playback"} == set(range(480, 500))
    assert [one.letter_id for one in kept if one.consumer == "agent.library"] == [neighbour.event_id]
    with office.desk() as desk:
        assert desk.unlisted() == 480


def test_rows_are_the_same_however_batches_end_and_whatever_is_replayed(
    office: Office, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "KEPT_OF_ONE_ORIGIN", 10)
    letters = [office.letter(n % 45, partition=n % 2, consumer=f"agent.{'ab'[n % 3 == 0]}") for n in range(90)]
    log.append(*letters)
    log.fold(log.records, 90)
    at_once = office.world.digests()
    log.fold(log.records, 7)
    assert office.world.digests() == at_once
    with office.world.connect() as connection:
        connection.execute("TRUNCATE model.dead_letters, model.dead_letter_origins")
    log.fold(log.records, 7)
    assert office.world.digests() == at_once
    assert at_once["dead_letters"].rows == 40


def test_letters_the_topic_has_no_more_leave_the_list(office: Office, log: Log) -> None:
    log.append(office.letter(1), at_ms=NOW_MS - DEAD_LETTERS.retention_ms - DAY_MS)
    log.append(office.letter(2), at_ms=NOW_MS)
    log.fold(log.records, 1)
    assert [one.topic_offset for one in office.letters()] == [2]


def test_letters_are_chosen_by_what_is_said_of_them(office: Office, log: Log) -> None:
    log.append(office.letter(1, cause="rejected", source="home"), at_ms=NOW_MS)
    log.append(office.letter(2, cause="truncated", source="flat"), at_ms=NOW_MS + 1)
    log.append(office.letter(3, consumer="work.scan", topic=LIBRARY_COMMANDS), at_ms=NOW_MS + 2)
    log.fold(log.records, 10)

    def offsets(**chosen: object) -> list[int]:
        return [one.topic_offset for one in office.letters(**chosen)]

    assert offsets() == [3, 2, 1]
    assert offsets(cause="truncated") == offsets(source="flat") == [2]
    assert offsets(consumer="work.scan") == offsets(topic=LIBRARY_COMMANDS.name) == [3]
    assert offsets(older_ms=NOW_MS + 1) == [1]
    assert offsets(newer_ms=NOW_MS + 1) == [3, 2]
    assert offsets(limit=2) == [3, 2]
    [whole] = office.letters(cause="truncated")
    assert offsets(letters=[whole.letter_id[:12]]) == [2]
    with pytest.raises(ConfigurationError, match="no such letter"):
        offsets(letters=["ffffffffffffffff"])
    with pytest.raises(ConfigurationError, match="several"):
        offsets(letters=[""])
    with office.desk() as desk:
        groups = {(g.consumer, g.cause_class): g.count for g in desk.groups(Chosen())}
    assert groups == {
        ("agent.playback", "rejected"): 1,
        ("agent.playback", "truncated"): 1,
        ("work.scan", "rejected"): 1,
    }


def mark(desk: Desk, letters: Sequence[str], to: Status, *of: Status) -> list[str]:
    with desk.transaction() as tx:
        return desk.mark(tx, to.value, letters, to, of=of, reason="because", chosen=Chosen(cause="rejected"))


def test_a_mark_is_taken_from_the_statuses_it_may_have_and_audited(office: Office, log: Log) -> None:
    log.append(office.letter(1), office.letter(2))
    log.fold(log.records, 10)
    first, second = sorted(office.statuses())
    with office.desk() as desk:
        assert mark(desk, [first], Status.PARKED, Status.OPEN) == [first]
        assert mark(desk, [first, second], Status.DISCARDED, Status.OPEN) == [second]
        assert mark(desk, [first], Status.REDRIVING, Status.OPEN, Status.REDRIVING) == []
        assert mark(desk, [first, second], Status.OPEN, Status.PARKED) == [first]
        lines = desk.audited(10)
    assert office.statuses() == {first: "open", second: "discarded"}
    told = [(line["actor"], line["action"], line["reason"], line["letters"]) for line in lines]
    assert told == [
        ("ops", "open", "because", [first]),
        ("ops", "discarded", "because", [second]),
        ("ops", "parked", "because", [first]),
    ]
    assert lines[0]["chosen"]["cause"] == "rejected"


def test_a_replay_of_the_list_leaves_what_operators_said(office: Office, log: Log) -> None:
    log.append(office.letter(1))
    log.fold(log.records, 10)
    [only] = office.statuses()
    with office.desk() as desk:
        mark(desk, [only], Status.DISCARDED, Status.OPEN)
    with office.world.connect() as connection:
        connection.execute("TRUNCATE model.dead_letters, model.dead_letter_origins")
    log.fold(log.records, 10)
    assert office.statuses() == {only: "discarded"}


def test_two_operators_do_not_redrive_at_once(office: Office) -> None:
    with office.desk() as one, office.desk() as other:
        one.alone()
        with pytest.raises(Exception, match="somebody else"):
            other.alone()
    with office.desk() as later:
        later.alone()


def test_nobody_but_the_keeper_of_the_list_can_change_the_audit(office: Office) -> None:
    for statement in ("UPDATE core.dlq_audit SET actor = 'x'", "DELETE FROM core.dlq_audit"):
        with pytest.raises(Exception, match="permission denied"):
            office.world.query(statement, role="projector")

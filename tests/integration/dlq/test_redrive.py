"""Letters are listed, redriven once however often it is said, and nothing is lost or doubled by kills."""

from __future__ import annotations

import secrets
import signal
from dataclasses import replace

import pytest

from projections.attention import Attention
from schemas.placement import playback_key, playback_partition
from schemas.topics import PLAYBACK_DECIDED
from streams.runtime import metrics
from tests.integration.dlq.office import Office, letter_named, report

pytestmark = [pytest.mark.services, pytest.mark.long]

MEDIA = "b" * 32


def somebody() -> str:
    return secrets.token_hex(16)


def test_letters_of_an_agent_are_appended_where_their_topic_places_them_once(office: Office) -> None:
    user = somebody()
    home = playback_partition(playback_key(user, MEDIA))
    letters = [office.of_report(report(user, MEDIA, n), n, partition=(home + 1) % 12) for n in range(1, 6)]
    office.write([*letters, letters[0]])
    office.list_all()
    assert len(office.letters()) == 5

    done = office.redrive()
    assert (len(done.done), done.refused, done.failed) == (5, {}, {})
    assert office.redrive().done == {}

    appended = office.appended(user)
    assert [letter_named(m) for m in appended] == [letter.event_id for letter in letters]
    assert {(m.partition(), m.value()) for m in appended} == {(home, letter.value) for letter in letters}
    assert set(office.statuses().values()) == {"redriven"}
    assert len(office.redrive(again=True).done) == 5
    assert len(office.appended(user)) == 10


@pytest.mark.faults
@pytest.mark.parametrize("point", ["dlq.marked", "dlq.appended", "dlq.done"])
def test_a_redrive_killed_at_a_boundary_and_said_again_appends_each_letter_once(office: Office, point: str) -> None:
    user = somebody()
    letters = [office.of_report(report(user, MEDIA, n), n) for n in range(1, 8)]
    office.write(letters)
    office.list_all()

    killed = office.killed_at(point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2_000:]
    assert set(office.statuses().values()) == {"redriven" if point == "dlq.done" else "redriving"}
    assert len(office.appended(user)) == (0 if point == "dlq.marked" else 7)
    office.redrive()
    office.redrive()

    assert sorted(letter_named(m) for m in office.appended(user)) == sorted(letter.event_id for letter in letters)
    assert set(office.statuses().values()) == {"redriven"}


def test_a_task_that_was_given_up_is_due_again_and_no_other(office: Office) -> None:
    for key, source, record in (("a", "home", "u:m"), ("b", "flat", "u:m"), ("c", "home", "u:n")):
        office.world.query(
            "INSERT INTO core.tasks (kind, key, source_id, log_epoch, wanted_version, correlation_id, requested_at,"
            " attempts, dead_at, payload)"
            " VALUES ('forward', %s, %s, 1, 9, 'c', now(), 8, now(), jsonb_build_object('record', %s::text))",
            key,
            source,
            record,
        )
    office.write(
        [office.letter(9, consumer="work.forward.home", topic=PLAYBACK_DECIDED, key=b"u:m", value=None, partition=4)]
    )
    office.list_all()
    outcome = office.redrive()
    assert list(outcome.done.values()) == ["due again"]
    rows = office.world.query("SELECT key, dead_at IS NULL, attempts FROM core.tasks ORDER BY key")
    assert rows == [("a", True, 0), ("b", False, 8), ("c", False, 8)]


def test_a_task_that_is_given_up_again_after_its_redrive_is_an_open_letter_again(office: Office) -> None:
    counting = Attention()

    def counted() -> float | None:
        with office.world.connect("relay") as connection:
            counting.look(connection)
        return metrics.REGISTRY.get_sample_value("playhead_dead_letters_open", {"cause": "rejected"})

    first = office.letter(9, consumer="work.forward.home", topic=PLAYBACK_DECIDED, key=b"u:m", value=None)
    again = replace(first, failed_at=first.failed_at + 1, error_text="nor this time", attempts=7)
    office.write([first])
    office.list_all()
    assert counted() == 1
    assert len(office.redrive().done) == 1
    assert counted() == 0
    office.write([first])
    office.list_all()
    assert (set(office.statuses().values()), counted()) == ({"redriven"}, 0), "it was written once more, that is all"

    office.write([again, first])
    office.list_all()
    [letter] = office.letters()
    assert (letter.status, letter.error_text, letter.attempts) == ("open", "nor this time", 7)
    assert counted() == 1
    with office.desk() as desk:
        assert desk.unlisted() == 0
    assert len(office.redrive().done) == 1
    assert office.redrive().done == {}
    assert (set(office.statuses().values()), counted()) == ({"redriven"}, 0)


def test_who_lists_letters_for_the_first_time_begins_where_the_topic_does(office: Office) -> None:
    office.write([office.letter(n) for n in range(6)])
    office.world.cut_head(4)
    office.list_all()
    assert {letter.topic_offset for letter in office.letters()} == {4, 5}

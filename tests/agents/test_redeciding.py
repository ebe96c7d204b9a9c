"""Reports decided again: equal under the rules they were decided by, and told apart under others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from schemas.events import Event, PlaybackDecided, PlaybackReported, UserForgotten
from schemas.ids import SchemaIds
from schemas.placement import playback_key
from streams.agents import playback
from streams.agents.redeciding import Findings, Redecider
from streams.domain.policy import FURTHEST, PLAYTHROUGH, Policy
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent
from tests.agents.rows import DictRows
from tests.agents.test_playback_agent import HOME, LOGGED_AT, REPORT, USER, Batch
from tests.agents.test_playback_merges import A, B, merge_event

CONTRACT = Contract(SchemaIds(), registry=None)
TV = replace(REPORT, media_id=A, session_id="tv", device_id="tv")
PHONE = replace(REPORT, media_id=A, session_id="phone", device_id="phone")


@dataclass
class Message:
    _key: bytes
    _value: bytes
    _offset: int
    at: int = LOGGED_AT

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def partition(self) -> int:
        return HOME

    def offset(self) -> int:
        return self._offset

    def timestamp(self) -> tuple[int, int]:
        return (2, self.at)

    def topic(self) -> str:
        return "topic"


def said(*reports: PlaybackReported | UserForgotten) -> list[Message]:
    """The reports at offsets from 0, a second apart."""
    return [
        Message(
            one.user_ref.encode() if isinstance(one, UserForgotten) else playback_key(one.user_ref, one.media_id),
            CONTRACT.encode(one),
            number,
            LOGGED_AT + 1_000 * number,
        )
        for number, one in enumerate(reports)
    ]


def decided(reports: Sequence[Message]) -> list[Message]:
    """What an agent made of them under the usual policy, at the offsets of its own topic."""
    batch, progress, forgotten = Batch(), DictRows(), DictRows()
    for report in reports:
        try:
            playback.process(cast(Any, batch), cast(Any, report), progress, {}, forgotten, CONTRACT, PLAYTHROUGH)
        except Permanent:
            continue
    return [Message(key, value, number) for number, (_, value, key, _) in enumerate(batch.sent)]


@pytest.fixture
def redecide(tmp_path: Path) -> Any:
    def run(
        reports: Sequence[Message], recorded: Sequence[Message], policy: Policy = PLAYTHROUGH, **more: Any
    ) -> Findings:
        found = Findings()
        redecider = Redecider(HOME, "topic-id", iter(cast(Any, recorded)), CONTRACT, policy, tmp_path, found, **more)
        for one in reports:
            if not redecider.report(cast(Any, one)):
                found.undecided += 1
        redecider.close()
        return found

    return run


def at(report: PlaybackReported, sequence: int, position_s: int, occurred_s: int, **more: Any) -> PlaybackReported:
    return replace(
        report,
        event_id=f"{report.session_id}-{sequence}",
        sequence=sequence,
        position_ms=position_s * 1_000,
        occurred_at=LOGGED_AT - 600_000 + occurred_s * 1_000,
        received_at=LOGGED_AT - 600_000 + occurred_s * 1_000,
        **more,
    )


EVENING = said(
    at(TV, 1, 1_000, 100),
    at(TV, 2, 1_010, 110),
    # Further, and late: a conflict under one policy, the truth under the other.
    at(PHONE, 1, 3_000, 50),
    at(TV, 3, 1_020, 120),
    at(TV, 4, 10_000, 130),  # beyond the duration: ignored by either
    at(TV, 5, -1, 140),  # rejected by either: a dead letter, no decision
    at(TV, 6, 1_030, 150),
)


def test_the_rules_that_decided_decide_the_same(redecide: Any) -> None:
    found = redecide(EVENING, decided(EVENING))
    assert (found.reports, found.same, found.differing, found.undecided, found.keys) == (7, 7, 0, 0, set())


def test_another_policy_is_told_by_cause_with_what_follows_from_it_apart(redecide: Any) -> None:
    found = redecide(EVENING, decided(EVENING), FURTHEST)

    [cause, *rest] = found.causes
    assert cause.startswith("late")
    assert cause.endswith("→ accepted")
    [example] = found.examples[cause]
    assert (example.offset, example.event_id, example.user_ref, example.media_id) == (2, "phone-1", USER, A)
    assert example.fields["position_ms"] == (1_010_000, 3_000_000)
    assert found.keys == {(USER, A)}
    assert found.same + found.differing == found.reports
    assert len(rest) + found.followed > 0


def test_what_was_never_decided_and_what_would_not_be_is_told(redecide: Any) -> None:
    recorded = decided(EVENING)
    del recorded[1]
    found = redecide(EVENING, recorded)
    assert found.causes == {"none → accepted": 1}

    invented = replace(cast(PlaybackDecided, CONTRACT.decode(recorded[0].value())))
    invented = replace(invented, cause=replace(invented.cause, offset=5))
    at_five = Message(b"", CONTRACT.encode(cast(Event, invented)), 0)
    found = redecide(EVENING[5:6], [at_five])
    assert found.causes == {"accepted → none": 1}


def test_repeats_and_decisions_of_another_log_are_passed_and_the_rest_is_not_decided_yet(redecide: Any) -> None:
    recorded = decided(EVENING)
    elsewhere = cast(PlaybackDecided, CONTRACT.decode(recorded[0].value()))
    other = Message(b"", CONTRACT.encode(replace(elsewhere, cause=replace(elsewhere.cause, topic_id="former"))), 0)
    found = redecide(EVENING, [other, *recorded[:2], *recorded[:2], recorded[2]])
    assert (found.same, found.differing, found.undecided) == (3, 0, 4)


def test_of_a_forgotten_person_nothing_is_decided_again(redecide: Any) -> None:
    forget = UserForgotten(event_id="f", correlation_id="c", source_id="playhead", received_at=1, user_ref=USER)
    reports = said(at(TV, 1, 1_000, 100), forget, at(TV, 2, 1_010, 110), at(PHONE, 1, 5, 120))
    recorded = decided(reports)
    assert len(recorded) == 2
    # Behind the last recorded decision nobody can say what was decided, and what was not yet.
    found = redecide(reports, [*recorded, recorded[0]])
    assert (found.same, found.differing, found.undecided) == (3, 0, 1)


def test_reports_before_a_time_are_decided_and_not_told_of(redecide: Any) -> None:
    found = redecide(EVENING, decided(EVENING), FURTHEST, since_ms=LOGGED_AT + 3_000)
    assert found.reports == 4
    assert not any(cause.startswith("late") for cause in found.causes)
    assert found.keys == {(USER, A)}


def test_a_merge_leads_reports_to_the_media_that_stays(tmp_path: Path) -> None:
    reports = said(at(TV, 1, 1_000, 100), at(TV, 2, 1_010, 110))
    found = Findings()
    redecider = Redecider(HOME, "topic-id", iter(cast(Any, decided(reports))), CONTRACT, PLAYTHROUGH, tmp_path, found)
    redecider.report(cast(Any, reports[0]))
    redecider.merge(cast(Any, Message(A.encode(), CONTRACT.encode(merge_event(A, B)), 0)))
    redecider.report(cast(Any, reports[1]))
    redecider.close()
    assert found.causes == {"accepted: media": 1}

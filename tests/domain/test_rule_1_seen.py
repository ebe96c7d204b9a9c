"""Rule 1: exact repetitions are recognised by event id and by sequence, and change nothing."""

from __future__ import annotations

from dataclasses import replace

from streams.domain.identity import derived_event_id
from streams.domain.playback import decide
from tests.domain.given import NOON, RECEIVED, command, given, pause, progress


def test_event_id_seen_before_is_a_duplicate() -> None:
    story = given(progress(600, event_id="a")).when(progress(700, at=60, event_id="a"))
    story.then("duplicate", "same_event_id", position_ms=600_000)


def test_event_id_of_another_source_is_another() -> None:
    given(progress(600, event_id="a")).when(progress(700, at=60, event_id="a", source="b")).then("accepted")


def test_64_event_ids_are_kept_and_the_65th_pushes_out_the_first() -> None:
    story = given(*(pause(600, at=i, event_id=str(i)) for i in range(64)))
    story.when(pause(600, at=0, event_id="0")).then("duplicate")
    story.when(pause(600, at=65, event_id="65"), pause(600, at=0, event_id="0")).then("late")


def test_sequence_is_seen_in_the_window_of_the_highest_and_63_below() -> None:
    story = given(*(progress(600 + s, at=s, seq=s, event_id=str(s)) for s in (1, 2, 4, 65)))
    for seen in (2, 4, 65):
        story.when(progress(1000, at=100, seq=seen, event_id="new")).then("duplicate", "same_sequence")
    for unseen in (3, 64):
        story.when(progress(1000, at=100, seq=unseen, event_id="new")).then("late")
    story.when(progress(1000, at=100, seq=1, event_id="new")).then("late", position_ms=665_000)


def test_sequence_far_ahead_empties_the_window() -> None:
    story = given(progress(600, seq=1, event_id="1"), progress(700, at=10, seq=100, event_id="2"))
    story.when(progress(800, at=20, seq=37, event_id="3")).then("late")
    story.when(progress(800, at=20, seq=100, event_id="4")).then("duplicate")


def test_sequence_of_64_bits_and_below_zero_is_counted() -> None:
    high = 2**63 - 1
    story = given(progress(600, seq=-(2**63), event_id="1"), progress(700, at=10, seq=high, event_id="2"))
    story.then("accepted").when(progress(800, at=20, seq=high, event_id="3")).then("duplicate")


def test_sequence_without_session_id_does_not_count() -> None:
    story = given(progress(600, run=None, seq=1, event_id="1")).when(progress(700, at=9, run=None, seq=1, event_id="2"))
    story.then("accepted", position_ms=700_000)


def test_event_id_is_derived_when_sequence_or_occurred_at_tells_reports_apart() -> None:
    story = given(progress(600, seq=1, occurred_at=None)).when(progress(600, at=9, seq=1, occurred_at=None))
    story.then("duplicate")
    given(progress(600)).when(progress(600, received_at=RECEIVED + 5000)).then("duplicate")
    nameless = progress(600, occurred_at=None)
    assert decide(None, nameless).event_id is None
    given(nameless).when(nameless).then("accepted")


def test_event_id_is_derived_from_a_sequence_without_session_id_too() -> None:
    report = progress(600, run=None, seq=7, occurred_at=None)
    given(report).when(report).then("duplicate", "same_event_id")


def test_derived_id_depends_on_each_of_its_parts() -> None:
    parts = {
        "source": "s", "user": "u", "media": "m", "session_id": "p", "device_id": "d",
        "sequence": 1, "kind": "stop", "position_ms": 5, "occurred_at": NOON,
    }  # fmt: skip
    ids = {derived_event_id(**{**parts, name: other}) for name in parts for other in (None, 7) if other != parts[name]}  # type: ignore[arg-type]
    assert len(ids | {derived_event_id(**parts)}) >= 15  # type: ignore[arg-type]


def test_every_verdict_but_duplicate_and_rejected_remembers_the_report() -> None:
    story = given(progress(2400, at=1000, event_id="0"))
    for one, verdict in (
        (progress(600, at=2000, run="phone", event_id="1"), "pending"),
        (progress(500, at=100, run="phone", event_id="2"), "late"),
        (progress(600, at=2000, run="web", event_id="3", automated=True), "ignored"),
        (command("mark_played", at=2100, event_id="4"), "accepted"),
    ):
        story = story.when(one).then(verdict)
        assert story.when(one).then("duplicate").state is story.state
    story.when(replace(progress(-1), event_id="5")).then("rejected").when(progress(1, event_id="5", at=3000)).then(
        "pending"
    )


def test_newest_command_is_known_beyond_the_ring() -> None:
    order = command("set_position", 600, at=0, event_id="order")
    story = given(progress(60, at=-50), order)
    story = story.when(*(progress(600 + i / 10, at=i / 10, event_id=str(i)) for i in range(1, 70)))
    story.when(order).then("duplicate", position_ms=606_900)

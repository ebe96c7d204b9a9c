"""Positions: what was applied before, and what is remembered of it."""

from __future__ import annotations

from projections.offsets import CAUSE_TOPICS_MAX, Position
from schemas.events import SourcePosition


def cause(offset: int, index: int = 0, topic_id: str = "a") -> SourcePosition:
    return SourcePosition(topic_id, 3, offset, index)


def test_a_cause_counts_as_applied_up_to_the_newest_one_and_not_beyond() -> None:
    position = Position(3).after(10, None, [cause(7), cause(8, 1)])
    assert position.applied(cause(7, 5))
    assert position.applied(cause(8, 0))
    assert position.applied(cause(8, 1))
    assert not position.applied(cause(8, 2))
    assert not position.applied(cause(9))


def test_causes_of_another_topic_id_are_counted_apart() -> None:
    position = Position(3).after(10, None, [cause(100)])
    assert not position.applied(cause(0, topic_id="b"))
    both = position.after(11, None, [cause(0, topic_id="b")])
    assert both.applied(cause(100))
    assert both.applied(cause(0, topic_id="b"))


def test_only_the_newest_topic_ids_of_causes_are_remembered() -> None:
    position = Position(3).after(10, None, [cause(1, topic_id=f"t{n}") for n in range(CAUSE_TOPICS_MAX + 2)])
    assert list(position.last_causes) == [f"t{n}" for n in range(2, CAUSE_TOPICS_MAX + 2)]
    again = position.after(11, None, [cause(2, topic_id="t2"), cause(1, topic_id="new")])
    assert "t2" in again.last_causes
    assert "t3" not in again.last_causes


def test_moving_on_keeps_the_leader_epoch_when_the_record_has_none() -> None:
    position = Position(3).after(10, 4, [])
    assert (position.next_offset, position.leader_epoch) == (10, 4)
    assert position.after(11, None, []).leader_epoch == 4

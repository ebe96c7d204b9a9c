"""A person is forgotten, in the agent's tables: what goes, what stays, and what is still said of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from schemas.events import SourcePosition, UserForgotten
from schemas.ids import SchemaIds
from schemas.placement import PARTITIONS, partition_of, playback_key
from schemas.topics import PLAYBACK_DECIDED
from streams.agents import forgotten as rows
from streams.agents import playback
from streams.agents.forgotten import Forgotten
from streams.agents.forgotten.plan import PLAN, ROW
from streams.agents.merges import keep
from streams.domain.policy import PLAYTHROUGH
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent
from tests.agents.rows import DictRows
from tests.agents.test_playback_agent import HOME, LOGGED_AT, REPORT, USER, Batch, Record
from tests.schemas.implementations import IMPLEMENTATIONS, coders_of

CONTRACT = Contract(SchemaIds(), registry=None)
ASKED = UserForgotten(event_id="f", correlation_id="c-f", source_id="operator", received_at=LOGGED_AT, user_ref=USER)
# Begins like the other's, and lies in whatever partition: only the colon ends a user_ref.
NEIGHBOUR = USER + "a"


class Unit:
    """The agent's tables in one partition."""

    def __init__(self) -> None:
        self.progress, self.aliases, self.forgotten = DictRows(), DictRows(), DictRows()

    def take(self, event: Any, key: bytes, partition: int = HOME) -> Batch:
        batch, record = Batch(partition=partition), Record(key, CONTRACT.encode(event), partition)
        assert playback.process(
            cast(Any, batch), cast(Any, record), self.progress, self.aliases, self.forgotten, CONTRACT, PLAYTHROUGH
        )
        return batch

    def report(self, media: str, **changes: Any) -> Batch:
        return self.take(replace(REPORT, media_id=media, **changes), playback_key(USER, media))

    def forget(self, **changes: Any) -> Batch:
        return self.take(replace(ASKED, **changes), USER.encode())


def test_a_person_who_is_forgotten_leaves_no_row_and_the_read_models_are_told() -> None:
    unit = Unit()
    unit.report("m1")
    unit.report("m2", event_id="e-2", sequence=2)
    neighbours = {playback_key(NEIGHBOUR, "m1"): b"x"}
    unit.progress |= neighbours
    batch = unit.forget()
    assert unit.progress == neighbours
    ((topic, value, key, partition),) = batch.sent
    assert (topic, key, partition) == (PLAYBACK_DECIDED.name, USER.encode(), HOME)
    assert CONTRACT.decode(value) == replace(ASKED, cause=SourcePosition("topic-id", HOME, 7, 0))
    assert rows.decode(unit.forgotten[USER.encode()]) == Forgotten(LOGGED_AT)


def test_what_is_still_said_of_somebody_forgotten_makes_no_row_and_no_decision() -> None:
    unit = Unit()
    unit.report("m1")
    unit.forget()
    assert unit.report("m1", event_id="e-2", sequence=2).sent == []
    assert unit.report("m3", event_id="e-3", kind="mark_played", position_ms=None).sent == []
    assert unit.progress == {}


def test_the_same_is_so_under_a_media_that_was_merged() -> None:
    unit = Unit()
    unit.report("m1")
    keep(unit.aliases, "m1", "m2")
    unit.report("m2", event_id="e-2", sequence=2)
    assert len(unit.progress) == 2
    unit.forget()
    assert unit.report("m1", event_id="e-3", sequence=3).sent == []
    assert unit.progress == {}


def test_forgetting_twice_says_it_again_and_keeps_when_it_was_first() -> None:
    unit = Unit()
    unit.report("m1")
    assert len(unit.forget().sent) == 1
    before = dict(unit.forgotten)
    assert len(unit.forget(event_id="f-2").sent) == 1
    assert (unit.progress, dict(unit.forgotten)) == ({}, before)


def test_somebody_nobody_knew_can_be_forgotten_and_others_are_decided_as_ever() -> None:
    unit = Unit()
    unit.take(replace(ASKED, user_ref="z"), b"z", partition_of(b"z"))
    assert len(unit.report("m1").sent) == 1


@pytest.mark.parametrize(
    ("event", "key", "partition", "cause"),
    [
        (ASKED, playback_key(USER, "m1"), HOME, "key_mismatch"),
        (ASKED, USER.encode(), (HOME + 1) % PARTITIONS, "wrong_partition"),
        (replace(ASKED, user_ref=""), b"", HOME, "invalid_value"),
        (replace(ASKED, user_ref="a:b"), b"a:b", HOME, "invalid_value"),
    ],
)
def test_what_asks_for_it_in_another_place_or_form_is_poison_and_forgets_nobody(
    event: UserForgotten, key: bytes, partition: int, cause: str
) -> None:
    unit = Unit()
    unit.report("m1")
    with pytest.raises(Permanent) as caught:
        unit.take(event, key, partition)
    assert caught.value.cause == cause
    assert len(unit.progress) == 1


GOLDEN = {bytes.fromhex("0184c8c5e1c568"): Forgotten(1_796_069_700_098)}


@pytest.mark.parametrize(("row", "value"), GOLDEN.items())
def test_given_a_row_of_version_1_its_bytes_are_pinned_and_both_codecs_write_them(row: bytes, value: Forgotten) -> None:
    assert rows.decode(row) == value
    assert rows.encode(value) == row
    for implementation in IMPLEMENTATIONS:
        assert coders_of(PLAN, implementation).encode[ROW](value, b"\1") == row
    assert rows.readable(row) == {"logged_at": value.logged_at}


def test_given_a_row_of_a_newer_build_it_is_refused_and_damage_is_called_damage() -> None:
    row = rows.encode(Forgotten(1))
    with pytest.raises(rows.UnknownStateVersion, match="Upgrade Playhead"):
        rows.decode(b"\2" + row[1:])
    for damaged in (b"", row[:1], row + b"\0"):
        with pytest.raises(rows.DamagedRow):
            rows.decode(damaged)

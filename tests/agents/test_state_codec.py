"""Rows by either codec: the same bytes, and damage has one name."""

from __future__ import annotations

import random
from typing import Any

import pytest

from schemas.errors import Undecodable
from streams.agents import state as rows
from streams.agents.state.plan import PLAN, ROW
from streams.domain.state import State
from tests.schemas.codec_fuzz import value_of
from tests.schemas.implementations import IMPLEMENTATIONS, coders_of


def random_states(count: int) -> list[State]:
    chance = random.Random(7)
    (coded,) = PLAN.coded
    return [value_of(chance, coded, coded.reader, nul=False) for _ in range(count)]


def test_given_any_state_its_row_reads_back_the_same_by_every_codec() -> None:
    made = [coders_of(PLAN, implementation) for implementation in IMPLEMENTATIONS]
    for state in random_states(100):
        row = rows.encode(state)
        assert rows.decode(row) == state
        for coders in made:
            assert coders.encode[ROW](state, row[:1]) == row
            assert coders.decode[ROW, rows.VERSION](row, 1) == state


def test_given_a_damaged_row_it_is_called_damaged() -> None:
    row = rows.encode(State(user="u", media="m"))
    for damaged in (b"", row[:1], row[:-1], row + b"\0", row[:1] + b"\xff" * 40, row.replace(b"\2u", b"\2\xff")):
        with pytest.raises(rows.DamagedRow):
            rows.decode(damaged)


def test_given_a_state_of_wrong_types_no_row_is_written() -> None:
    fields: list[dict[str, Any]] = [{"user": b"u"}, {"epoch": True}, {"media": "\ud800"}, {"sessions": None}]
    for wrong in fields:
        with pytest.raises(Undecodable):
            rows.encode(State(**{"user": "u", "media": "m", **wrong}))


def test_given_a_row_longer_than_any_limit_of_an_event_it_is_kept_whole() -> None:
    state = State(user="u" * 5_000, media="\0", event_ids=tuple(range(10_000)))
    for implementation in IMPLEMENTATIONS:
        coders = coders_of(PLAN, implementation)
        assert coders.decode[ROW, rows.VERSION](coders.encode[ROW](state, b"\1"), 1) == state

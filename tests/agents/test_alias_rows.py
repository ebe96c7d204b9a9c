"""Rows of the table of aliases: pinned bytes, and what is none of ours."""

from __future__ import annotations

import json

import pytest

from streams.agents import aliases as rows
from streams.agents.aliases import MediaAlias
from streams.agents.aliases.plan import PLAN, ROW
from tests.schemas.implementations import IMPLEMENTATIONS, coders_of

GOLDEN = {
    b"\x01\x02\x02b\x00": MediaAlias(survivor="b"),
    b"\x01\x00\x04\x02a\x02c\x00": MediaAlias(merged=("a", "c")),
}


@pytest.mark.parametrize(("row", "alias"), GOLDEN.items())
def test_given_a_row_of_version_1_its_bytes_are_pinned(row: bytes, alias: MediaAlias) -> None:
    assert rows.decode(row) == alias
    assert rows.encode(alias) == row
    assert json.loads(json.dumps(rows.readable(row))) == {"survivor": alias.survivor, "merged": list(alias.merged)}


@pytest.mark.parametrize("alias", GOLDEN.values())
def test_given_either_codec_the_bytes_are_the_same(alias: MediaAlias) -> None:
    for implementation in IMPLEMENTATIONS:
        coders = coders_of(PLAN, implementation)
        row = coders.encode[ROW](alias, b"\1")
        assert row == rows.encode(alias)
        assert coders.decode[ROW, 1](row, 1) == alias


def test_given_a_row_of_a_newer_build_it_is_refused_and_damage_is_called_damage() -> None:
    row = rows.encode(MediaAlias(survivor="b"))
    with pytest.raises(rows.UnknownStateVersion, match="Upgrade Playhead"):
        rows.decode(b"\2" + row[1:])
    for damaged in (b"", row[:1], row[:-1], row + b"\0"):
        with pytest.raises(rows.DamagedRow):
            rows.decode(damaged)

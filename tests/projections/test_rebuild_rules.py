"""Rebuilds without services: where they begin, and what a statement beside the live model may name."""

from __future__ import annotations

import pytest

from projections.digest import TABLES
from projections.entry import PROJECTIONS
from projections.rebuild.aimed import aim_of, aimed
from projections.rebuild.starts import Beginning, FromOffset, FromTime, start_of
from streams.runtime.errors import ConfigurationError


def test_a_start_is_an_offset_or_a_time() -> None:
    assert start_of("0") == Beginning()
    assert start_of("1200") == FromOffset(1200)
    assert start_of("1970-01-02") == FromTime(86_400_000)
    assert start_of("1970-01-01T02:00:00+01:00") == FromTime(3_600_000)


@pytest.mark.parametrize("text", ["", "-1", "yesterday", "1" * 19, "1.5"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="neither an offset nor a time"):
        start_of(text)


def test_a_start_is_said_the_way_it_is_read() -> None:
    for start in (Beginning(), FromOffset(7), FromTime(1_796_069_700_123)):
        assert start_of(str(start)) == start


def test_names_of_the_live_model_become_those_of_the_copies() -> None:
    aim = aim_of("model_next", ["plays"], ["tasks"])
    statement = b"INSERT INTO model.plays SELECT x.plays FROM pg_temp.stage, core.tasks WHERE remodel.plays"
    assert (
        aimed(aim, statement)
        == b"INSERT INTO model_next.plays SELECT x.plays FROM pg_temp.stage, model_next.tasks WHERE remodel.plays"
    )


@pytest.mark.parametrize("statement", [b"UPDATE model.epoch", b"COPY core.tasks", b"FROM api.media", b"model.play"])
def test_a_statement_that_names_anything_else_of_ours_is_refused(statement: bytes) -> None:
    with pytest.raises(ConfigurationError, match="must not touch"):
        aimed(aim_of("model_next", ["plays"]), statement)


def test_what_is_only_read_is_read_live_and_never_written() -> None:
    aim = aim_of("model_next", ["plays"], reads=["model.media_merges"])
    read = b"SELECT FROM model.plays JOIN model.media_merges USING (media_id)"
    assert aimed(aim, read) == b"SELECT FROM model_next.plays JOIN model.media_merges USING (media_id)"
    with pytest.raises(ConfigurationError, match="must not touch"):
        aimed(aim, b"WITH gone AS (DELETE FROM model.media_merges RETURNING 1) SELECT FROM gone")


@pytest.mark.parametrize("name", ["Model", "a-b", "", "x;y", "1x"])
def test_a_schema_that_needs_quotes_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="no name of a schema"):
        aim_of(name, ["plays"])


def test_every_table_that_can_be_rebuilt_has_a_digest() -> None:
    tables = {table for kind in PROJECTIONS.values() for table in kind.tables}
    assert tables
    assert tables <= TABLES.keys()

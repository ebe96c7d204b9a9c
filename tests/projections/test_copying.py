"""Rows as COPY takes them: what PostgreSQL reads is what was given."""

from __future__ import annotations

from datetime import date
from typing import Any

import psycopg
import pytest

from projections.copying import lines
from tests.stack import Database

ROWS: list[tuple[Any, ...]] = [
    ("plain", 7, True, b"\x00\xff\\", date(2026, 11, 30), ["a", "b"]),
    ("tab\t line\n return\r back\\slash \\N \x08\x0c\x0b", -(2**62), False, b"", date(1970, 1, 1), []),
    ("", 0, None, None, None, ['quo"te', "comma,", "{braces}", "back\\slash", "", "NULL", "tab\t", "ü 文"]),
    (None, None, None, None, None, None),
    ("ü 文 \u2028", 1, True, b"\n", date(9999, 12, 31), [" spaced "]),
]


@pytest.mark.services
def test_what_is_copied_is_read_back(database: Database) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute(
            "CREATE TEMPORARY TABLE t (n serial, a text, b bigint, c boolean, d bytea, e date, f text[])"
        )
        with connection.cursor().copy("COPY t (a, b, c, d, e, f) FROM STDIN") as copy:
            copy.write(lines(ROWS))
        assert connection.execute("SELECT a, b, c, d, e, f FROM t ORDER BY n").fetchall() == ROWS


def test_what_can_not_be_copied_is_refused() -> None:
    with pytest.raises(TypeError, match="float"):
        lines([(1.5,)])

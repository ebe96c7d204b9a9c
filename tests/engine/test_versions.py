"""Stored values and the builds that read them; the golden bytes are those of two versions of one value."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import pytest

from streams.engine import EXIT_REFUSED, Crash, Refused, Versioned


@dataclass(frozen=True)
class Count:
    total: int
    last: str | None = None


FIRST = Versioned[Count](lambda count: b"%d" % count.total, {1: lambda body: Count(int(body))})
SECOND = Versioned[Count](
    lambda count: json.dumps(asdict(count)).encode(),
    {1: lambda body: Count(int(body)), 2: lambda body: Count(**json.loads(body))},
)
GOLDEN = {1: b"\x0141", 2: b'\x02{"total": 42, "last": "x"}'}


def test_given_golden_rows_then_their_bytes_are_pinned() -> None:
    assert FIRST.dump(Count(41)) == GOLDEN[1]
    assert SECOND.dump(Count(42, "x")) == GOLDEN[2]


def test_given_an_older_row_then_it_is_upgraded_when_read_and_written_as_the_newest() -> None:
    old = SECOND.load(GOLDEN[1])
    assert old == Count(41)
    assert SECOND.dump(old)[0] == 2
    assert SECOND.load(SECOND.dump(old)) == old
    assert SECOND.load(GOLDEN[2]) == Count(42, "x")


def test_given_a_newer_row_then_it_is_refused_with_exit_78_and_upgrade() -> None:
    with pytest.raises(Refused, match=r"version 2, this build knows up to 1.*Upgrade") as caught:
        FIRST.load(GOLDEN[2])
    assert caught.value.exit_code == EXIT_REFUSED


def test_given_a_version_that_is_no_longer_read_or_a_damaged_row_then_that_is_said() -> None:
    with pytest.raises(Refused, match="no longer reads"):
        SECOND.load(b"\x0041")
    for row in (b"", b"\x01x", b"\x02{"):
        with pytest.raises(Crash, match="damaged row"):
            SECOND.load(row)


def test_given_versions_that_fit_no_byte_then_refused() -> None:
    for versions in ({}, {256: Count}, {-1: Count}):
        with pytest.raises(Refused):
            Versioned(lambda _: b"", versions)  # type: ignore[arg-type]

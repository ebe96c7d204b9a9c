"""Times as servers write them."""

from __future__ import annotations

import pytest

from streams.effects.forward.moments import moment

AT = 1_796_069_700_123


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T20:15:00.1234567Z",
        "2026-11-30T20:15:00.123",
        "2026-11-30T21:15:00.123+01:00",
        "2026-11-30T20:15:00.123402938Z",
    ],
)
def test_any_number_of_digits_with_or_without_a_zone_is_one_time(text: str) -> None:
    assert moment(text) == AT


def test_no_time_is_never() -> None:
    assert [moment(value) for value in (None, "", 7, "yesterday", "0001-01-01T00:00:00Z", "2026-13-41T99:00:00Z")] == [
        None
    ] * 6

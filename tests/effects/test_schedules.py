"""When a schedule means, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from streams.runtime.errors import Permanent
from streams.runtime.schedules import DEFAULT_CRON, check_cron, next_time


def test_the_default_is_four_times_a_day() -> None:
    at = datetime(2026, 3, 1, 1, 2, 3, tzinfo=UTC)
    found = []
    for _ in range(5):
        at = next_time(DEFAULT_CRON, at)
        found.append(at.hour)
    assert found == [6, 12, 18, 0, 6]


def test_a_time_that_is_due_is_not_found_again() -> None:
    at = datetime(2026, 3, 1, 6, tzinfo=UTC)
    assert next_time(DEFAULT_CRON, at) == at + timedelta(hours=6)


def test_the_servers_own_zone_does_not_count() -> None:
    at = datetime(2026, 3, 1, 7, 30, tzinfo=timezone(timedelta(hours=2)))  # 05:30 in UTC
    assert next_time("0 6 * * *", at) == datetime(2026, 3, 1, 6, tzinfo=UTC)


@pytest.mark.parametrize("cron", ["0 */6 * * *", "*/5 * * * *", "15 3 * * sun", "0 0 1 1 *"])
def test_what_cron_takes_is_taken(cron: str) -> None:
    check_cron(cron)


@pytest.mark.parametrize("cron", ["", "x", "* * * *", "61 * * * *", "* * * * * *", "0 0 30 2 *", "@daily", "0 " * 60])
def test_what_is_no_schedule_is_refused(cron: str) -> None:
    with pytest.raises(Permanent):
        check_cron(cron)

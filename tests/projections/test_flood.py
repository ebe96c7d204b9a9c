"""When dead letters are a flood."""

from __future__ import annotations

from projections.flood import IN_A_ROW_MAX, IN_WINDOW_MAX, WINDOW, FloodGuard


def test_a_hundred_in_a_row_trip_over_batches_too() -> None:
    guard = FloodGuard()
    guard.keep([True] * (IN_A_ROW_MAX - 1))
    assert guard.trips([False, True]) is None
    assert guard.trips([True]) == "100 dead letters in a row"


def test_one_good_record_ends_the_row() -> None:
    guard = FloodGuard()
    guard.keep([True] * 60 + [False])
    assert guard.trips([True] * 39) is None


def test_more_than_ten_percent_of_the_last_thousand_trip() -> None:
    guard = FloodGuard()
    bad = ([True] + [False] * 9) * (WINDOW // 10)
    guard.keep(bad)
    assert guard.trips([False] * 9 + [True]) is None
    assert guard.trips([True, True]) == f"{IN_WINDOW_MAX + 1} dead letters among the last 1,000 records"


def test_what_lies_beyond_the_window_is_forgotten() -> None:
    guard = FloodGuard()
    guard.keep([True, False] * 50)
    guard.keep([False] * WINDOW)
    assert guard.trips([True, False] * 50) is None


def test_a_few_bad_ones_at_a_quiet_start_are_no_flood() -> None:
    assert FloodGuard().trips([True, True, False, True]) is None


def test_asking_counts_nothing() -> None:
    guard = FloodGuard()
    for _ in range(5):
        assert guard.trips([True] * 99) is None

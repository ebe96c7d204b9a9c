"""What became of a scan, told from the task's row and the read model's."""

from __future__ import annotations

from typing import Any

import pytest

from streams.cli.scan import advice
from streams.cli.scanning import Outcome, Seen, described, settled, taken


def task(wanted: int, done: int = -1, **more: Any) -> dict[str, Any]:
    row = {
        "wanted_version": wanted,
        "done_version": done,
        "cancelled_version": -1,
        "dead_at": None,
        "last_error": None,
        "lease_token": None,
        "progress": None,
    }
    return row | more


def scan(generation: int, status: str, **more: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("seen", "added", "changed", "moved", "missing", "unreadable", "present_before"), 0)
    row = {"generation": generation, "status": status, "reason": None, "skipped": {}, "version": 5, "observations": 3}
    return row | counts | more


def outcome(seen: Seen, **options: Any) -> Outcome | None:
    return settled(seen, "music", 7, **options)


@pytest.mark.parametrize(
    "seen",
    [
        Seen(None, None),
        Seen(task(3, 3), None),
        Seen(task(7), None),
        Seen(task(7, 7), None),
        Seen(task(7), scan(7, "running")),
        Seen(task(7, 7), scan(7, "finalizing")),
        Seen(task(8), scan(7, "failed")),
    ],
    ids=["unknown", "not projected", "waits", "read model lags", "runs", "ends", "repeated"],
)
def test_a_scan_that_goes_on_has_no_outcome(seen: Seen) -> None:
    assert outcome(seen) is None


@pytest.mark.parametrize("status", ["finalized", "held", "failed", "cancelled", "superseded", "incomplete"])
def test_a_scan_that_is_over_is_told_by_the_read_model(status: str) -> None:
    found = outcome(Seen(task(7, 7), scan(7, status, added=2, skipped={"hidden": 1})))
    assert found is not None
    assert (found.scan, found.status, found.counts["added"], found.skipped) == ("music:7", status, 2, {"hidden": 1})


def test_a_later_scan_answers_for_an_earlier_one() -> None:
    found = outcome(Seen(task(9, 9), scan(9, "finalized")))
    assert found is not None
    assert found.scan == "music:9"


def test_a_task_that_was_given_up_says_why() -> None:
    found = outcome(Seen(task(7, dead_at="now", last_error="no such folder"), None))
    assert found == Outcome("music:7", "dead", "no such folder")


def test_a_scan_that_was_cancelled_before_it_began_is_over() -> None:
    found = outcome(Seen(task(7, cancelled_version=7), None))
    assert found == Outcome("music:7", "cancelled")


def test_that_it_was_held_is_no_news_to_who_confirmed_it_and_that_it_is_held_again_is() -> None:
    seen = Seen(task(7, 7), scan(7, "held", version=5))
    assert outcome(seen, held_before=5) is None
    assert outcome(seen, held_before=4) is not None


def test_progress_tells_rate_and_what_could_not_be_read() -> None:
    progress = {"items": 500, "changed": 3, "unreadable": 1, "seconds": 2.0}
    shown = described("music", Seen(task(7, progress=progress), scan(7, "running", present_before=1_000)))
    assert (shown["total"], shown["completed"]) == (1_000, 500)
    assert shown["said"] == "500 items, 250/s, 3 new or changed, 1 unreadable"


def test_a_scan_that_was_listed_is_decided_now_whoever_is_slow() -> None:
    seen = Seen(task(7, 7), None)
    assert taken(seen, 7)
    assert described("music", seen)["description"] == "music: deciding"
    assert not taken(Seen(task(7), None), 7)
    assert described("music", Seen(task(7), None))["description"] == "music: waiting for a worker"


def test_a_held_scan_says_how_to_confirm_it() -> None:
    [line] = advice(Outcome("music:7", "held", "mass_removal", {"missing": 40}), "music")
    assert "40 items" in line
    assert "playhead scan music --confirm" in line

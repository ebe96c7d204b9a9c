"""Scans that overlap, are asked for twice, or meet a tree that changes (reports: concurrency, races, stale lists)."""

from __future__ import annotations

import os

import pytest

from schemas.library import ScanListed, ScanStarted
from streams.upstream.files.posix import Posix
from tests.effects.scan.desk import make_old
from tests.integration.library.library import Library

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library"), pytest.mark.long]


def test_scans_asked_for_at_once_are_one_scan_and_one_library(library: Library) -> None:
    library.make(*(f"a/{number}.mp3" for number in range(12)))
    library.house.stop_worker()
    generations = [library.ask() for _ in range(5)]
    library.house.wait(lambda: library.is_wanted(generations[-1]), "all of them are wanted")
    library.house.start_worker()
    library.ended(generations[-1])
    library.play()
    library.check()
    started = [event for event in library.house.observed(library.source_id) if isinstance(event, ScanStarted)]
    assert [event.generation for event in started] == generations[-1:]


def test_a_scan_asked_for_while_one_runs_is_one_that_follows(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.make("a/1.mp3", "b/2.mp3")
    asked: list[int] = []

    def ask() -> None:
        library.make("a/too-late.mp3")
        asked.extend(library.ask() for _ in range(3))

    library.when_opened(monkeypatch, b"b", ask)
    library.scan()
    library.ended(asked[-1])
    library.check()
    listed = [event for event in library.house.observed(library.source_id) if isinstance(event, ScanListed)]
    assert [event.generation for event in listed] == [asked[0] - 1, asked[-1]]
    assert b"a/too-late.mp3" in library.ids()


def test_two_workers_scan_two_sources_and_neither_disturbs_the_other(library: Library, other: Library) -> None:
    library.make(*(f"a/{number}.mp3" for number in range(12)))
    other.make(*(f"a/{number}.mp3" for number in range(12)))
    library.house.start_worker()
    for _ in range(2):
        generations = [(one, one.ask()) for one in (library, other)]
        for one, generation in generations:
            one.ended(generation)
            one.check()
        library.rename("a/0.mp3", "moved.mp3") if b"a/0.mp3" in library.ids() else None
    assert not set(library.ids().values()) & set(other.ids().values())


def test_what_comes_while_a_scan_is_listing_is_not_cleaned_away(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.make(*(f"{folder}/{number}.mp3" for folder in "abc" for number in range(5)))
    library.scan()
    library.play()
    before = library.ids()

    def come() -> None:
        """Into a folder that was listed before: a new song that a hook tells of, and one that moves there."""
        library.make("a/new.mp3")
        library.tell_seen("a/new.mp3")
        library.rename("c/4.mp3", "a/4-moved.mp3")

    library.when_opened(monkeypatch, b"b", come)
    library.scan()
    monkeypatch.undo()
    assert b"a/new.mp3" in library.ids()
    library.scan()
    library.check()
    assert library.ids()[b"a/4-moved.mp3"] == before[b"c/4.mp3"]
    assert len(library.ids()) == len(before) + 1


def test_a_hook_that_adds_what_a_scan_lists_adds_one_item(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.make(*(f"a/{number}.mp3" for number in range(5)), "b/1.mp3")
    library.tell_seen("a/0.mp3")  # before the scan
    # While it runs: what was listed already, and what will be.
    library.when_opened(monkeypatch, b"b", lambda: library.tell_seen("a/1.mp3", "b/1.mp3"))
    library.scan()
    library.tell_seen("a/2.mp3")  # and after it
    library.scan()
    library.check()
    assert {item.status for item in library.items().values()} == {"present"}
    assert len(library.items()) == 6


def test_a_song_that_changes_while_it_is_read_is_read_by_a_scan_that_follows(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.make("a.mp3", *(f"rest/{number}.mp3" for number in range(5)))
    library.scan()
    library.play("a.mp3")
    before = library.ids()
    library.song("a.mp3", "Another title", frames=20)
    opens, once = Posix.open_file, [True]

    def open_file(posix: Posix, name: bytes, parent: int) -> int:
        descriptor = opens(posix, name, parent)
        if name == b"a.mp3" and once and once.pop():
            with library.path("a.mp3").open("ab") as file:
                file.write(bytes(500))
        return descriptor

    monkeypatch.setattr(Posix, "open_file", open_file)
    scan = library.scan()
    assert scan.skipped["growing"] == 1
    library.check()
    assert library.of("a.mp3").title == "a.mp3"
    make_old(library.path("a.mp3"))
    library.house.query(
        "UPDATE core.schedules SET next_at = now() WHERE requested_by = 'follow_up' AND source_id = %s",
        library.source_id,
    )
    library.house.wait(lambda: library.of("a.mp3").title == "Another title", "the follow-up has read it")
    library.wait_idle()
    library.check()
    assert library.ids() == before


def test_songs_are_deleted_and_added_while_they_are_listed(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.make(*(f"{folder}/{number}.mp3" for folder in "abc" for number in range(5)))
    library.scan()
    library.play()
    before = library.ids()

    def stir() -> None:
        library.remove("a/0.mp3", "b/0.mp3")
        library.make("a/new.mp3", "b/new.mp3", "d/new.mp3")
        library.rename("b/1.mp3", "a/1-moved.mp3")
        library.rename("a/2.mp3", "c/2-moved.mp3")

    library.when_opened(monkeypatch, b"b", stir)
    library.scan()
    monkeypatch.undo()
    library.scan()
    library.check()
    now = library.ids()
    assert now[b"a/1-moved.mp3"] == before[b"b/1.mp3"]
    assert now[b"c/2-moved.mp3"] == before[b"a/2.mp3"]
    assert library.statuses(before[b"a/0.mp3"], before[b"b/0.mp3"]) == ["missing"] * 2


def test_where_no_news_of_files_come_the_schedule_finds_them(library: Library) -> None:
    library.make("a.mp3", "b.mp3")
    library.scan()
    library.make("new.mp3")
    library.remove("b.mp3")
    library.house.query(
        "UPDATE core.schedules SET next_at = now() WHERE requested_by = 'schedule' AND source_id = %s",
        library.source_id,
    )
    library.house.wait(lambda: set(library.ids()) == {b"a.mp3", b"new.mp3"}, "the schedule's scan has come")
    library.wait_idle()
    library.check()
    assert library.house.query(
        "SELECT requested_by FROM api.scans WHERE source_id = %s ORDER BY generation DESC LIMIT 1", library.source_id
    ) == [("schedule",)]


def test_a_scan_that_is_cancelled_marks_nothing_missing(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.make(*(f"{folder}/{number}.mp3" for folder in "abc" for number in range(5)))
    library.scan()
    library.play("c/1.mp3")
    before = library.ids()
    library.remove("c/0.mp3")
    library.when_opened(monkeypatch, b"b", library.cancel)
    library.scan("cancelled")
    assert library.ids() == before
    library.scan()
    library.check()
    assert library.statuses(before[b"c/0.mp3"]) == ["missing"]


def test_a_very_long_path_and_a_deep_one_are_songs(library: Library) -> None:
    deep = "/".join(["d" * 40] * 40) + "/song.mp3"
    library.make(deep, "n" * 250 + ".mp3", "emoji-\U0001f3b8.mp3", "new\nline.mp3", "  spaces  .mp3")
    library.scan()
    library.play("emoji-\U0001f3b8.mp3", "new\nline.mp3", "  spaces  .mp3")  # a name is reported up to 256 bytes
    library.check()
    os.rename(library.path("d" * 40), library.path("e" * 40))
    before = library.ids()
    library.scan()
    library.check()
    assert set(library.ids().values()) == set(before.values())

"""A dry run: what was listed, held against what is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from schemas.library import ItemDetails, ItemObserved, Locator, PathSkipped
from streams.effects.comparing import Comparison
from streams.effects.scan.ports import KnownFile

DETAILS = ItemDetails(None, None, "music", "track", "t", None, None, None, None, (), (), ())


class Library:
    def __init__(self, *files: KnownFile) -> None:
        self._files = files

    def folder(self, source_id: str, folder: bytes) -> Mapping[bytes, KnownFile]:
        return {file.path: file for file in self._files if file.path.rpartition(b"/")[0] == folder}

    def folders(self, source_id: str) -> Iterable[bytes]:
        return {file.path.rpartition(b"/")[0] for file in self._files}


def known(path: str, inode: int = 1) -> KnownFile:
    return KnownFile(path.encode(), 10, 1_000, 1, inode)


def item(path: str, inode: int = 1, *, changed: bool = False, upstream_id: str | None = None) -> ItemObserved:
    return ItemObserved(
        event_id="e",
        correlation_id="c",
        source_id="music",
        received_at=1,
        generation=1,
        how="scan",
        upstream_id=upstream_id,
        locator=Locator(path.encode(), 10, 1_000, 1, inode),
        details=DETAILS if changed else None,
    )


def skipped(path: str, *, folder: bool, reason: str = "unreadable") -> PathSkipped:
    return PathSkipped(
        event_id="e",
        correlation_id="c",
        source_id="music",
        received_at=1,
        generation=1,
        ordinal=0,
        path=path.encode(),
        folder=folder,
        reason=reason,
    )


def test_what_is_as_it_was_is_no_difference() -> None:
    comparison = Comparison("music", Library(known("a/1"), known("2", 2)))
    comparison.folder("music", b"")
    comparison.folder("music", b"a")
    comparison.send(item("2", 2))
    comparison.send(item("a/1"))
    found = comparison.difference()
    assert not found
    assert found.same == 2


def test_new_changed_and_gone_are_told_apart_also_in_folders_that_are_gone() -> None:
    comparison = Comparison("music", Library(known("a/1", 1), known("a/2", 2), known("old/3", 3)))
    comparison.folder("music", b"a")
    comparison.send(item("a/1", 1, changed=True))
    comparison.send(item("a/9", 9, changed=True))
    found = comparison.difference()
    assert (found.new, found.changed, found.gone, found.moved) == ([b"a/9"], [b"a/1"], [b"a/2", b"old/3"], [])


def test_a_file_that_took_its_trace_along_was_moved() -> None:
    comparison = Comparison("music", Library(known("old/1", 7)))
    comparison.folder("music", b"new")
    comparison.send(item("new/1", 7, changed=True))
    found = comparison.difference()
    assert (found.moved, found.new, found.gone) == ([(b"old/1", b"new/1")], [], [])


def test_two_that_came_with_one_trace_are_no_move() -> None:
    comparison = Comparison("music", Library(known("old/1", 7)))
    comparison.folder("music", b"new")
    comparison.send(item("new/1", 7, changed=True))
    comparison.send(item("new/2", 7, changed=True))
    found = comparison.difference()
    assert (found.moved, found.new, found.gone) == ([], [b"new/1", b"new/2"], [b"old/1"])


def test_what_could_not_be_looked_at_is_not_gone() -> None:
    comparison = Comparison(
        "music", Library(known("shut/1"), known("shut/deep/2", 2), known("b", 3), known("shutter", 4))
    )
    comparison.folder("music", b"")
    comparison.send(skipped("shut", folder=True))
    comparison.send(skipped("b", folder=False))
    found = comparison.difference()
    assert found.gone == [b"shutter"]
    assert found.skipped == [(b"shut", "unreadable"), (b"b", "unreadable")]


def test_a_servers_items_are_held_against_what_is_known_by_path() -> None:
    comparison = Comparison("music", Library(known("a/1"), known("a/2", 2)))
    comparison.send(item("a/1", upstream_id="u1", changed=True))
    comparison.send(item("a/3", 3, upstream_id="u3", changed=True))
    found = comparison.difference()
    assert (found.same, found.new, found.gone) == (1, [b"a/3"], [b"a/2"])


def test_names_that_are_no_text_are_shown_escaped(tmp_path: Path) -> None:
    from streams.cli.dry_run import shown

    assert shown(b"caf\xe9\x1b[31m") == "caf\\xe9\\u001b[31m"

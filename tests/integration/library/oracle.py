"""What must be true of a library, computed twice without the code under test: from its tree and from its log.

A tree is walked by a few lines of its own. A log is folded from its first record: newest change of an item wins, what
was merged is gone.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from schemas.library import Change, ItemChanged, MediaMerged, ScanChanged

LIVE = frozenset({"present", "provisional"})
_MEDIA = (b".mp3", b".wav", b".avi")


@dataclass(frozen=True, slots=True)
class Item:
    """As it is read, or as the log has it."""

    media_id: str
    status: str
    readable: bool
    generation: int | None
    paths: tuple[bytes, ...]
    title: str | None
    content_hash: str | None


def walked(root: Path) -> dict[bytes, tuple[int, int]]:
    """Every media file of a tree by its path below the root, with its device and inode. No link is followed."""
    found = {}
    top = os.fsencode(root)
    for folder, folders, names in os.walk(top):
        folders[:] = [name for name in folders if not name.startswith(b".")]
        for name in names:
            path = os.path.join(folder, name)
            seen = os.lstat(path)
            if stat.S_ISREG(seen.st_mode) and seen.st_size and not name.startswith(b".") and _is_media(name):
                found[os.path.relpath(path, top)] = (seen.st_dev, seen.st_ino)
    return found


def _is_media(name: bytes) -> bool:
    return name.lower().endswith(_MEDIA)


def folded(changes: Iterable[Change]) -> tuple[dict[str, Item], dict[str, str], dict[int, ScanChanged]]:
    """Items, merges (each to the one that stays) and scans of one source's changes, in their order."""
    items: dict[str, Item] = {}
    merges: dict[str, str] = {}
    scans: dict[int, ScanChanged] = {}
    for event in changes:
        match event:
            case ItemChanged():
                details = event.details
                items[event.media_id] = Item(
                    event.media_id,
                    event.status,
                    event.readable,
                    event.generation,
                    tuple(one.path for one in event.locators),
                    details.title if details else None,
                    details.content_hash if details else None,
                )
            case MediaMerged():
                items.pop(event.media_id, None)
                merges = {ended: event.survivor if to == event.media_id else to for ended, to in merges.items()}
                merges[event.media_id] = event.survivor
            case ScanChanged():
                scans[event.generation] = event
    return items, merges, scans


def expect_tree(items: Collection[Item], tree: dict[bytes, tuple[int, int]], unseen: Collection[bytes] = ()) -> None:
    """Every file of the tree is a place of one item, and every place of an item that is there is a file of the tree,
    or is ``unseen``; names of one file are one item, and other files are other items."""
    place: dict[bytes, str] = {}
    for item in items:
        if item.status in LIVE:
            for path in item.paths:
                assert path not in place, f"{path!r} is in {place[path]} and in {item.media_id}"
                place[path] = item.media_id
    assert place.keys() ^ (tree.keys() | set(unseen)) == set()
    names: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
    for path, file in tree.items():
        names[file].add(place[path])
    assert all(len(media) == 1 for media in names.values()), names
    assert len({media for [media] in names.values()}) == len(names), "two files are one item"

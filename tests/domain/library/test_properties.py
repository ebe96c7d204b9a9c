"""Any interleaving, loss, repetition and breaking off: in the end the library that one clean scan would have made.

A tree is scanned, then people do things to it, then it is scanned with all sorts of trouble, then once in peace. The
same tree scanned once in peace right after the first scan says what must come out of it.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from schemas.library import (
    Command,
    ItemDetails,
    Observation,
    ScanConfirmed,
    ScanRequested,
    ScanStarted,
)
from streams.domain.library import evidence, keys
from streams.domain.library.locators import canonical
from streams.domain.library.rows import Alias, Item, Named, Sight, Tally
from streams.domain.library.words import Status

from .simple import SOURCE, File, Library, facts

EXAMPLES = 250
FOLDERS = (b"a", b"b", b"c/d")
NAMES = (b"1", "é".encode(), "é".encode(), b"X", b"x")
PATHS = [folder + b"/" + name for folder in FOLDERS for name in NAMES]


@dataclass
class World:
    """Names and the files under them; contents and inodes are numbered, so none is met twice by accident."""

    files: dict[bytes, File]
    inodes: int = 100
    contents: int = 0
    clock: int = 1
    media: dict[bytes, str] = field(default_factory=dict)

    def fresh(self, content: str | None = None) -> File:
        self.inodes += 1
        self.clock += 1
        if content is None:
            self.contents += 1
            content = f"h{self.contents}"
        return File(self.inodes, content, mtime=self.clock)

    def does(self, operation: str, one: bytes, other: bytes) -> None:
        """One thing that people do, when it can be done."""
        files = self.files
        if operation == "add":
            files.setdefault(one, self.fresh())
        elif operation == "shrink":
            files.pop(one, None)
        elif one not in files or one == other:
            return
        elif operation == "rename":
            files[other] = files.pop(one)
        elif operation == "move_by_copy":
            files[other] = self.fresh(files.pop(one).content)
        elif operation == "copy":
            files.setdefault(other, self.fresh(files[one].content))
        elif operation == "replace":
            files[one] = self.fresh()
        elif operation == "edit":
            self.clock += 1
            self.contents += 1
            old = files[one]
            for path, file in list(files.items()):
                if file.inode == old.inode:
                    files[path] = replace(old, content=f"h{self.contents}", mtime=self.clock)
        elif operation == "link":
            files.setdefault(other, files[one])
        elif operation == "link_over" and other in files:
            files[other] = files[one]
        elif operation == "deduplicate":
            for path, file in list(files.items()):
                if file.content == files[one].content:
                    files[path] = files[one]
        elif operation == "swap" and other in files:
            files[one], files[other] = files[other], files[one]
        elif operation == "swap_by_copy" and other in files:
            first, second = files[one], files[other]
            files[one], files[other] = self.fresh(second.content), self.fresh(first.content)


OPERATIONS = (
    "add", "shrink", "rename", "move_by_copy", "copy", "replace", "edit", "link", "link_over", "deduplicate", "swap",
    "swap_by_copy",
)  # fmt: skip
operations = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(PATHS), st.sampled_from(PATHS)), min_size=1, max_size=5
)


def check_rows(library: Library) -> None:
    """Rows agree with each other, and with what was told."""
    head = len(keys.prefix(SOURCE))
    rows = {key[head:]: row for key, row in library.shelf.rows.items()}
    items = {row.media_id: row for row in rows.values() if isinstance(row, Item)}
    held = [place for item in items.values() for place in item.places]
    assert len(held) == len(set(held))
    assert set(held) == {key for key, row in rows.items() if isinstance(row, Sight)}
    for item in items.values():
        assert item.places
        for place in item.places:
            sight = rows[place]
            assert isinstance(sight, Sight)
            assert (sight.media_id, sight.plain) == (item.media_id, item.status == "present" and item.readable)
    owed: dict[bytes, set[str]] = {}
    for item in items.values():
        sights = {place: row for place in item.places if isinstance(row := rows[place], Sight)}
        for key in evidence.of_item(item.details, sights):
            owed.setdefault(key, set()).add(item.media_id)
    assert owed == {key: set(row.media) for key, row in rows.items() if isinstance(row, Named)}
    for key, row in rows.items():
        if isinstance(row, Alias):
            assert key[1:].decode() not in items, "an id that is used up, and an item"
        elif isinstance(row, Tally):
            assert row.live == sum(Status(item.status).live for item in items.values())
    assert library.items.keys() == items.keys()
    for media_id, told in library.items.items():
        assert (told.status, told.readable, shown(told.details)) == (
            items[media_id].status,
            items[media_id].readable,
            shown(items[media_id].details),
        )


def shown(details: ItemDetails | None) -> ItemDetails | None:
    """Without the version: that the same was found to be newer is kept, and is no news to anybody."""
    return None if details is None else replace(details, version=None)


def check_finished(library: Library, files: dict[bytes, File]) -> None:
    """Every name is of one live item, names of one file of the same, and no live item lies nowhere."""
    check_rows(library)
    owner: dict[bytes, str] = {}
    for media_id, paths in library.live().items():
        assert paths
        for path in paths:
            assert path not in owner, "one name of two items"
            owner[path] = media_id
    assert owner.keys() == files.keys(), "a name without an item, or an item of a name that is gone"
    by_inode: dict[int, set[str]] = {}
    for path, file in files.items():
        by_inode.setdefault(file.inode, set()).add(owner[path])
        details = library.items[owner[path]].details
        assert details is not None
        assert details.content_hash == file.content
        assert library.items[owner[path]].status == "present"
    assert all(len(media) == 1 for media in by_inode.values()), "one file of two items"
    assert len(set(owner.values())) == len(by_inode), "two files of one item"


def calmly(library: Library, files: dict[bytes, File], order: list[bytes] | None = None) -> None:
    """A scan without trouble; what it holds is confirmed."""
    library.scan(files, order=order)
    confirm(library)
    assert library.scans[library.generation].status == "finalized"


def confirm(library: Library) -> None:
    if library.scans[library.generation].status == "held":
        library.feed(
            ScanConfirmed(
                event_id="e", correlation_id="c", source_id=SOURCE, received_at=0, generation=library.generation
            )
        )


def first_scan(start: list[bytes]) -> tuple[Library, World]:
    world = World({})
    for path in start:
        world.files[path] = world.fresh()
    library = Library()
    calmly(library, world.files)
    return library, world


def same_outcome(library: Library, wanted: Library, world: World, before: World, *, hidden: bool) -> None:
    """What was there before has come to the same, where only one thing can have become of it.

    Of contents that several files have or had, any may have gone where another is. Of a file with two names one may
    have been seen first, and alone. And what lies where it was may be a better copy of it, when it has gone where
    nobody could look (``hidden``).
    """
    files = world.files
    names = Counter(file.inode for file in files.values())
    held = Counter(file.content for file in before.files.values())
    holds = {content: len({f.inode for f in files.values() if f.content == content}) for content in held}
    for path, old in before.files.items():
        media_id = before.media[path]
        new = files.get(path)
        if held[old.content] > 1 or holds[old.content] > 1:
            continue
        if any(name in files and names[files[name].inode] > 1 for name in {path} | wanted.paths(media_id)):
            continue
        if hidden and new is not None and new.inode != old.inode:
            continue
        assert library.merged.get(media_id) is None
        assert library.status(media_id) == wanted.status(media_id), (media_id, old.content)
        if library.status(media_id) == "present":
            assert library.paths(media_id) == wanted.paths(media_id), (media_id, old.content)


class Identities:
    """Which media a content has been, as long as that is beyond doubt: one file of it, at whatever path."""

    def __init__(self) -> None:
        self._of: dict[str, tuple[str, bytes, int]] = {}

    def hold(self, library: Library, files: dict[bytes, File]) -> None:
        """After each calm scan: what was a media still is it, wherever it went."""
        inodes: dict[str, set[int]] = {}
        for file in files.values():
            inodes.setdefault(file.content, set()).add(file.inode)
        meant = {canonical(path, folds=False) for path in files}
        now = {file.inode: file.content for file in files.values()}
        for content, (_, path, inode) in list(self._of.items()):
            # Something else lies where it was, which may be taken for a better copy of it; or the file was edited.
            gone = content not in inodes and canonical(path, folds=False) in meant
            if gone or now.get(inode, content) != content:
                del self._of[content]
        for path, file in files.items():
            if len(inodes[file.content]) > 1:
                self._of.pop(file.content, None)
                continue
            media, *_ = self._of.get(file.content, (library.at(path),))
            while media in library.merged:
                media = library.merged[media]
            assert library.at(path) == media, f"{file.content} has become another media"
            self._of[file.content] = media, path, file.inode


@settings(max_examples=EXAMPLES)
@given(
    start=st.lists(st.sampled_from(PATHS), unique=True, min_size=1, max_size=8),
    rounds=st.lists(st.tuples(operations, st.booleans()), max_size=4),
)
def test_after_anything_people_do_a_scan_tells_the_tree_and_a_second_one_tells_nothing(
    start: list[bytes], rounds: list[tuple[list[tuple[str, bytes, bytes]], bool]]
) -> None:
    library, world = first_scan(start)
    identities = Identities()
    identities.hold(library, world.files)
    for done, backward in rounds:
        for operation, one, other in done:
            world.does(operation, one, other)
        order = sorted(world.files, reverse=backward)
        calmly(library, world.files, order)
        check_finished(library, world.files)
        identities.hold(library, world.files)
        since = len(library.told)
        calmly(library, world.files, order)
        assert library.changes(since) == []


@st.composite
def troubles(draw: st.DrawFn) -> list[str]:
    return draw(
        st.lists(st.sampled_from(["lost", "twice", "broken", "incomplete", "unreadable", "stale", "full"]), max_size=4)
    )


def disturb(library: Library, world: World, trouble: str, data: st.DataObject) -> None:
    """A scan of the tree as it is, with trouble on its way."""
    files = world.files
    skips = []
    if trouble == "unreadable":
        skips = [(data.draw(st.sampled_from(FOLDERS), label="unreadable"), True, "unreadable")]
    order = data.draw(st.permutations(sorted(files)), label="order")
    records: list[Observation | Command] = list(
        library.records(files, skips=skips, full=trouble == "full", complete=trouble != "incomplete", order=order)
    )
    at = data.draw(st.integers(1, len(records) - 1), label="at")
    if trouble == "lost":
        del records[at]
    elif trouble == "twice":
        again = data.draw(st.integers(at, len(records)), label="again")
        records.insert(again, records[at])
    elif trouble == "broken":
        # Who worked at it died; another begins anew, and the dead man's last records come late.
        late = records[at:]
        generation = library.generation
        other: list[Observation | Command] = list(library.records(files))
        asked = ScanRequested(
            event_id="e",
            correlation_id="c",
            source_id=SOURCE,
            received_at=0,
            requested_by="retry",
            replaces=generation,
        )
        records = [*records[:at], asked, *mixed(late, other, data)]
    elif trouble == "stale":
        other = list(library.records(files))
        records = mixed(records, other, data)
        records.sort(key=lambda record: 0 if isinstance(record, ScanStarted) and record is not other[0] else 1)
    for record in records:
        library.feed(record)
        check_rows(library)
    confirm(library)


def mixed(
    one: list[Observation | Command], other: list[Observation | Command], data: st.DataObject
) -> list[Observation | Command]:
    """Both in their own order, in any order with each other."""
    one, other = list(one), list(other)
    out: list[Observation | Command] = []
    while one and other:
        out.append((one if data.draw(st.booleans(), label="whose") else other).pop(0))
    return [*out, *one, *other]


@settings(max_examples=EXAMPLES)
@given(
    start=st.lists(st.sampled_from(PATHS), unique=True, min_size=1, max_size=8),
    done=operations,
    trouble=troubles(),
    data=st.data(),
)
def test_after_any_trouble_a_calm_scan_comes_to_what_it_would_have_come_to_without(
    start: list[bytes], done: list[tuple[str, bytes, bytes]], trouble: list[str], data: st.DataObject
) -> None:
    library, world = first_scan(start)
    note(f"{start} {done} {trouble}")
    before = copy.deepcopy(world)
    before.media = {path: library.at(path) for path in world.files}
    for operation, one, other in done:
        world.does(operation, one, other)
    wanted = copy.deepcopy(library)
    calmly(wanted, world.files)
    for kind in trouble:
        disturb(library, world, kind, data)
    calmly(library, world.files)
    check_finished(library, world.files)
    same_outcome(library, wanted, world, before, hidden="unreadable" in trouble)


def test_a_copy_that_differs_in_nothing_but_its_time_is_no_news() -> None:
    library, world = first_scan([b"a/x"])
    world.does("move_by_copy", b"a/x", b"b/1")
    for skips in ([(b"a", True, "unreadable")], []):
        library.scan(world.files, skips=skips)
    since = len(library.told)
    library.scan(world.files, full=True)
    assert library.changes(since) == []
    check_finished(library, world.files)


@settings(max_examples=EXAMPLES)
@given(
    start=st.lists(st.sampled_from(PATHS), unique=True, min_size=1, max_size=8),
    trouble=troubles().filter(bool),
    data=st.data(),
)
def test_nothing_that_is_there_is_missing_at_any_moment_whatever_happens_to_scans(
    start: list[bytes], trouble: list[str], data: st.DataObject
) -> None:
    library, world = first_scan(start)
    ids = {path: library.at(path) for path in world.files}
    for kind in trouble:
        disturb(library, world, kind, data)
        assert {library.status(media_id) for media_id in ids.values()} == {"present"}
    assert len(library.items) == len(set(ids.values()))


SERVED = [f"u{n}" for n in range(6)]
server_step = st.one_of(
    st.tuples(st.just("scan"), st.none()),
    st.tuples(st.sampled_from(["add", "remove", "renew", "hook", "removal", "late_removal"]), st.integers(0, 5)),
)


@settings(max_examples=EXAMPLES)
@given(steps=st.lists(server_step, max_size=12), data=st.data())
def test_hooks_between_the_records_of_scans_lose_and_double_nothing(
    steps: list[tuple[str, Any]], data: st.DataObject
) -> None:
    library = Library()
    listing: dict[str, ItemDetails | None] = {name: facts(f"f{name}") for name in SERVED}
    media: dict[str, str] = {}
    library.serve(listing)
    for item in library.items.values():
        assert item.details is not None
        media[str(item.details.content_hash)] = item.media_id
    renewed = 0
    pending: list[Observation] = []
    for kind, number in steps:
        names = list(listing)
        if kind == "scan":
            for record in pending:
                library.feed(record)
            pending = library.served(dict(listing))
            # A listing is taken after its start was told.
            for _ in range(data.draw(st.integers(1, len(pending)), label="so far")):
                library.feed(pending.pop(0))
        elif kind == "add":
            renewed += 1
            listing[f"n{renewed}"] = facts(f"new{renewed}")
            library.hook(f"n{renewed}", details=listing[f"n{renewed}"])
        elif names:
            name = names[number % len(names)]
            if kind == "remove":
                del listing[name]
            elif kind == "renew":
                renewed += 1
                listing[f"r{renewed}"] = listing.pop(name)
                if data.draw(st.booleans(), label="told"):
                    library.removal(name)
                if data.draw(st.booleans(), label="told of the new one"):
                    library.hook(f"r{renewed}", details=listing[f"r{renewed}"])
            elif kind == "hook":
                library.hook(name, details=listing[name])
            elif kind == "removal":
                library.removal(name)
            elif kind == "late_removal":
                library.removal(name, received_at=0)
        check_rows(library)
    for record in pending:
        library.feed(record)
    for _ in range(2):
        library.serve(dict(listing))
        confirm(library)
        check_rows(library)
    live = [item for item in library.items.values() if item.status in ("present", "provisional")]
    assert sorted(str(item.upstream_id) for item in live) == sorted(listing)
    assert {item.status for item in live} <= {"present"}
    for item in live:
        assert item.details is not None
        wanted = media.get(str(item.details.content_hash))
        assert wanted is None or item.media_id == wanted, "a renewed id cost a media its identity"

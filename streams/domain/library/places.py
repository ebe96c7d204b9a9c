"""Putting a media somewhere, and taking it from there."""

from __future__ import annotations

from dataclasses import replace

from schemas.library import ItemObserved
from streams.domain.identity import media_id
from streams.domain.library import keys
from streams.domain.library.case import Case
from streams.domain.library.draft import Draft
from streams.domain.library.evidence import path_of
from streams.domain.library.locators import text, top
from streams.domain.library.outputs import Aliased, Merged
from streams.domain.library.rows import Alias, Mark, Pending, Sight
from streams.domain.library.words import Change


def place_of(event: ItemObserved) -> bytes:
    """The place an observation speaks of. It has an upstream id or a locator (``validity``)."""
    if event.upstream_id is not None:
        return keys.upstream(event.upstream_id)
    assert event.locator is not None
    return keys.path(event.locator.path)


def sighted(case: Case, event: ItemObserved, media: str, old: Sight | None) -> Sight:
    """The place as it was just seen. What could not be read, or is still written, is not taken for known: it will be
    read again."""
    locator = event.locator
    seen = case.at.offset
    since, at = (seen, case.received_at) if old is None else (old.since, max(old.at, case.received_at))
    if locator is None or not event.settled or event.failed is not None:
        path = old.path if old is not None else None
        if locator is not None and event.upstream_id is not None:
            path = locator.path
        if old is None:
            return Sight(media, seen, since, at, False, path, None, None, None, None)
        return Sight(media, seen, since, at, False, path, old.size, old.mtime_ns, old.device, old.inode)
    path = None if event.upstream_id is None else locator.path
    return Sight(
        media, seen, since, at, False, path, locator.size, locator.mtime_ns, locator.device, locator.inode
    )  # fmt: skip


def same_facts(one: Sight, other: Sight) -> bool:
    return (
        one.size == other.size
        and one.mtime_ns == other.mtime_ns
        and one.device == other.device
        and one.inode == other.inode
        and one.path == other.path
    )


def unchanged(old: Sight, sight: Sight) -> bool:
    """As a scanner tells it, who does not look at device numbers."""
    return (old.size, old.mtime_ns, old.inode) == (sight.size, sight.mtime_ns, sight.inode)


def unread(sight: Sight) -> Sight:
    """Nothing of it is taken for known, so that it is read again."""
    return replace(sight, size=None, mtime_ns=None, device=None, inode=None)


def from_pending(media: str, pending: Pending, old: Sight | None) -> Sight:
    """The place as it was seen when its decision was put off."""
    return Sight(
        media,
        pending.seen,
        pending.seen if old is None else old.since,
        pending.at,
        False,
        pending.path,
        pending.size,
        pending.mtime_ns,
        pending.device,
        pending.inode,
    )


def lose(draft: Draft, place: bytes) -> None:
    """Take a file's place from a media. When it was the last, a ghost keeps what is known of it."""
    lost = draft.sights.pop(place)
    if not draft.sights:
        draft.sights[keys.ghost(draft.media_id)] = replace(lost, path=path_of(place, lost))
    draft.note(Change.LOCATORS)


def gain(case: Case, draft: Draft, place: bytes, sight: Sight) -> None:
    """Give a media a place; of a server's item also the id that leads to it."""
    draft.sights.pop(keys.ghost(draft.media_id), None)
    fresh = place not in draft.sights
    draft.sights[place] = sight
    know_top(case, place, sight)
    upstream_id = keys.upstream_id(place)
    if upstream_id is None or not fresh:
        return
    computed = media_id(case.source_id, upstream_id)
    if computed == draft.media_id and draft.was is None:
        return
    # Its first id as well, when it comes back: another may have borne it in between.
    case.outputs.append(Aliased(upstream_id, draft.media_id))
    if draft.was is not None:
        draft.note(Change.ALIAS)
    if computed != draft.media_id and case.item(computed) is None and case.alias(computed) is None:
        # Reports may have come under the id that the door computes.
        case.put(keys.alias(computed), Alias(draft.media_id))
        case.outputs.append(Merged(computed, draft.media_id))


def know_top(case: Case, place: bytes, sight: Sight) -> None:
    """Keep in mind which entries the root has."""
    path = path_of(place, sight)
    if path is not None:
        key = keys.TOP + top(path)
        if case.mark(key) is None:
            case.put(key, Mark(case.at.offset))


def top_is_left(case: Case, path: bytes | None) -> bool:
    """Whether the root's entry above ``path`` was there before the scan."""
    scan = case.scan
    mark = None if path is None else case.mark(keys.TOP + top(path))
    return mark is not None and scan is not None and mark.seen < scan.started


def fresh_id(case: Case, place: bytes) -> str:
    """An id for a media first seen there: the one the door computes, unless that is used up."""
    upstream_id = keys.upstream_id(place)
    basis = text(place[1:]) if upstream_id is None else upstream_id
    number = 0
    while True:
        # A path or an upstream id has no NUL in it, so no other's id is taken in advance.
        found = media_id(case.source_id, f"{basis}\0{number}" if number else basis)
        if case.item(found) is None and case.alias(found) is None:
            return found
        number += 1

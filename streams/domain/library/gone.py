"""What was not seen: counted first, because too much of it is held, then marked."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from streams.domain.library import keys
from streams.domain.library.case import Case
from streams.domain.library.draft import Draft, opened
from streams.domain.library.evidence import path_of
from streams.domain.library.outputs import Merged
from streams.domain.library.rows import Item, Mark, Row, Sight
from streams.domain.library.skips import Reason, reason_for
from streams.domain.library.words import Change, Status


class Fate(Enum):
    """Of a media that was seen nowhere."""

    MISSING = auto()
    UNREADABLE = auto()
    IGNORED = auto()
    MERGED = auto()


def assess(case: Case, place: bytes, row: Row) -> bool:
    """Count one unseen place's media; whether it had to be looked at."""
    assert type(row) is Sight
    if case.seen_now(row):
        return False
    item = case.item(row.media_id)
    if item is None or not Status(item.status).live:
        return False
    if case.mark(keys.MARKED) is None:
        case.put(keys.MARKED, Mark(case.at.offset))
    if not _first_of_unseen(case, item, place):
        return True
    tally = case.tally
    match fate(case, item):
        case Fate.MISSING:
            case.tally = replace(tally, missing=tally.missing + 1)
        case Fate.UNREADABLE:
            case.tally = replace(tally, unreadable=tally.unreadable + 1)
        case Fate.IGNORED | Fate.MERGED:
            pass
    return True


def mark(case: Case, place: bytes, row: Row) -> bool:
    """Let one unseen place's media be what it is now; whether anything was done."""
    scan = case.scan
    assert type(row) is Sight
    assert scan is not None
    if case.seen_now(row):
        return False
    draft = opened(case, row.media_id)
    # Another place of it, or one that it merged with, may have been decided before in this record.
    if draft is None or draft.was is None or not draft.status.live or place not in draft.sights:
        return False
    if draft.seen_now:
        path = path_of(place, row)
        if path is None or reason_for(case, path) is not Reason.UNREADABLE:
            del draft.sights[place]
            if any(sight.since >= scan.started for sight in draft.sights.values()):
                # It has another name instead: the same file, by device and inode.
                draft.note(Change.MOVED)
                case.count(moved=1)
            draft.note(Change.LOCATORS)
            draft.save()
        return True
    if not _first_of_unseen(case, draft.was, place):
        return False
    _end(case, draft, fate(case, draft.was))
    return True


def _end(case: Case, draft: Draft, found: Fate) -> None:
    draft_last_seen = draft.last_seen
    match found:
        case Fate.MISSING:
            draft.generation = draft_last_seen
            draft.status = Status.MISSING
            draft.note(Change.MISSING)
            case.tally = replace(case.tally, missing=case.tally.missing + 1)
        case Fate.UNREADABLE:
            if not draft.readable:
                return
            draft.generation = draft_last_seen
            draft.readable = False
            draft.note(Change.UNREADABLE)
        case Fate.IGNORED:
            draft.generation = draft_last_seen
            draft.status = Status.ARCHIVED
            draft.note(Change.IGNORED)
            draft.note(Change.ARCHIVED)
        case Fate.MERGED:
            _merge(case, draft)
            return
    draft.save()


def _first_of_unseen(case: Case, item: Item, place: bytes) -> bool:
    """Whether nothing of it was seen, and ``place`` is the one at which it is decided."""
    if place != min(item.places):
        return False
    return not any((sight := case.sight(key)) is not None and case.seen_now(sight) for key in item.places)


def fate(case: Case, item: Item) -> Fate:
    reasons = set()
    for place in item.places:
        sight = case.sight(place)
        assert sight is not None, "a place without a sight"
        path = path_of(place, sight)
        if path is not None:
            reasons.add(reason_for(case, path))
    if Reason.UNREADABLE in reasons:
        return Fate.UNREADABLE
    if Reason.IGNORED in reasons:
        return Fate.IGNORED
    return Fate.MISSING if _heir(case, item) is None else Fate.MERGED


def _heir(case: Case, item: Item) -> str | None:
    """The media that has the last path of ``item`` and the same content: copies were made names of one file."""
    content = None if item.details is None else item.details.content_hash
    ghost = case.sight(keys.ghost(item.media_id))
    if content is None or ghost is None or ghost.path is None:
        return None
    there = case.sight(keys.path(ghost.path))
    other = None if there is None else case.item(there.media_id)
    if other is None or other.details is None or other.details.content_hash != content:
        return None
    return other.media_id


def _merge(case: Case, draft: Draft) -> None:
    """Two media are one; the smallest id stays."""
    assert draft.was is not None
    heir_id = _heir(case, draft.was)
    heir = None if heir_id is None else opened(case, heir_id)
    assert heir is not None, "a place of nothing"
    if heir.media_id < draft.media_id:
        draft.end(heir.media_id)
        case.outputs.append(Merged(draft.media_id, heir.media_id))
        return
    heir.end(draft.media_id)
    case.outputs.append(Merged(heir.media_id, draft.media_id))
    draft.sights = {place: replace(sight, media_id=draft.media_id) for place, sight in heir.sights.items()}
    draft.details, draft.generation, draft.listed = heir.details, heir.generation, True
    draft.back()
    draft.settle()
    draft.note(Change.LOCATORS)
    draft.save()

"""Names of one file, by device and inode: one media with several places."""

from __future__ import annotations

from dataclasses import replace

from schemas.library import ItemDetails
from streams.domain.library import keys
from streams.domain.library.case import Case
from streams.domain.library.details import describe
from streams.domain.library.draft import Draft
from streams.domain.library.outputs import Merged
from streams.domain.library.places import gain
from streams.domain.library.rows import Sight
from streams.domain.library.words import Change


def itself(old: Sight, sight: Sight) -> bool:
    """Whether the file that lay there still does. Device numbers change when a file system is mounted again."""
    if sight.inode is None or old.inode != sight.inode:
        return False
    return old.device == sight.device or (old.size, old.mtime_ns) == (sight.size, sight.mtime_ns)


def lies_elsewhere(case: Case, draft: Draft, place: bytes, sight: Sight) -> bool:
    """Whether this scan has seen the media at other places only, as another file than the one at ``place``."""
    seen = [one for key, one in draft.sights.items() if key != place and case.seen_now(one)]
    return bool(seen) and not any(itself(one, sight) for one in seen)


def attach(case: Case, draft: Draft, place: bytes, sight: Sight, details: ItemDetails | None) -> None:
    """One more name of a file that is known, and save. Names that are not seen any more are dropped when the scan
    ends."""
    scan = case.scan
    assert scan is not None
    draft.back()
    gain(case, draft, place, sight)
    draft.note(Change.LOCATORS)
    draft.listed = True
    draft.generation = scan.generation
    describe(draft, details, listed=True, file=True)
    draft.save()


def is_new(case: Case, draft: Draft) -> bool:
    """Whether nobody knew it before this scan."""
    scan = case.scan
    if scan is None or draft.first_seen_at < scan.started_at:
        return False  # one that has moved lies nowhere else either
    return all(sight.since >= scan.started for sight in draft.sights.values())


def join(case: Case, draft: Draft, other: Draft) -> None:
    """``other``, which this scan has first seen (``is_new``) or only hooks, is ``draft`` from here on. Not saved."""
    other.end(draft.media_id)
    case.outputs.append(Merged(other.media_id, draft.media_id))
    draft.sights.pop(keys.ghost(draft.media_id), None)
    for place, sight in other.sights.items():
        draft.sights[place] = replace(sight, media_id=draft.media_id)
    if draft.details is None:
        draft.details = other.details
    draft.note(Change.LOCATORS)

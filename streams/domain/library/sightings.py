"""ItemObserved: something was seen."""

from __future__ import annotations

from dataclasses import replace

from schemas.library import ItemDetails, ItemObserved
from streams.domain.library import evidence, handed, keys
from streams.domain.library.case import Case
from streams.domain.library.details import describe
from streams.domain.library.draft import Draft, opened
from streams.domain.library.names import attach, is_new, itself, join
from streams.domain.library.places import (
    fresh_id,
    gain,
    lose,
    place_of,
    same_facts,
    sighted,
    top_is_left,
    unchanged,
    unread,
)
from streams.domain.library.rows import Sight, Tally
from streams.domain.library.scans import counts
from streams.domain.library.suspicion import Candidates, candidates, is_seen, put_off, same_file
from streams.domain.library.words import Change, Status


def observe(case: Case, event: ItemObserved) -> None:
    """By a scan: counted, and seen, when it is of the scan at work. By others: seen."""
    scanned = event.generation is not None
    if event.generation is not None and not counts(case, event.generation, event.ordinal):
        return
    place = place_of(event)
    old = case.sight(place)
    if old is None:
        _unknown(case, event, place, scanned=scanned)
        return
    sight = sighted(case, event, old.media_id, old)
    if old.plain and event.details is None and same_facts(old, sight):
        _again(case, place, old, sight)
        return
    draft = opened(case, old.media_id)
    assert draft is not None, "a sight of nothing"
    _known(case, event, place, draft, sight, scanned=scanned)


def _again(case: Case, place: bytes, old: Sight, sight: Sight) -> None:
    """Nothing new. Most records of most scans end here, so it is written out."""
    case.shelf.put(
        case.prefix + place,
        Sight(
            sight.media_id, sight.seen, sight.since, sight.at, True,
            sight.path, sight.size, sight.mtime_ns, sight.device, sight.inode,
        ),
    )  # fmt: skip
    scan = case.source.scan
    if scan is not None and old.seen < scan.started:
        t = case.tally
        case.tally = Tally(
            t.live, t.next, t.received, t.lost, t.kept + 1, t.seen + 1,
            t.added, t.changed, t.moved, t.missing, t.unreadable,
        )  # fmt: skip


def _unknown(case: Case, event: ItemObserved, place: bytes, *, scanned: bool) -> None:
    """There was nothing known there."""
    if not event.settled:
        # What it is can only be told when it is whole; a scan that follows reads it.
        return
    sight = sighted(case, event, "", None)
    if scanned:
        same = same_file(case, sight, event.details, "")
        if same is not None:
            left = top_is_left(case, evidence.path_of(place, sight)) or bool(same.sights)
            attach(case, same, place, sight, event.details)
            case.count(seen=1, kept=1 if left else 0)
            return
        found = candidates(case, place, sight, event.details, "", by_path=True)
        if found:
            put_off(case, place, sight, found, event.details)
            return
        if event.upstream_id is None and event.details is None:
            sight = unread(sight)
    elif event.upstream_id is None and event.details is None:
        # The scan that lists it is to read it.
        sight = replace(sight, mtime_ns=None)
    draft = Draft(case, fresh_id(case, place), None)
    draft.status = Status.PRESENT if scanned else Status.PROVISIONAL
    draft.listed = scanned
    draft.generation = event.generation
    draft.details = event.details
    draft.note(Change.ADDED)
    left = scanned and top_is_left(case, evidence.path_of(place, sight))
    gain(case, draft, place, sight)
    draft.save()
    if scanned:
        case.count(seen=1, added=1, kept=1 if left else 0)


def _known(case: Case, event: ItemObserved, place: bytes, draft: Draft, sight: Sight, *, scanned: bool) -> None:
    """What is known there is seen again, or something else lies there now."""
    old = draft.sights[place]
    file = place[:1] == keys.PATH
    if not scanned and not draft.status.live and event.how != "refresh" and case.received_at < old.at:
        return  # told before what made it missing was told
    if not scanned and not file and handed.spoils(case, draft, place, event):
        return
    details = event.details
    if not scanned and file and not unchanged(old, sight):
        # A scan is to find that it changed, and to read it: it may be another.
        if not draft.undecided:
            sight, details = replace(old, seen=sight.seen, at=sight.at), None
        elif details is None:
            sight = replace(sight, mtime_ns=None)
    if scanned and event.settled and event.failed is None:
        replaced = not file and handed.in_doubt(case, draft, place, sight, event.details)
        if file and draft.undecided and (old.inode is None or itself(old, sight)):
            # Only hooks knew this name of a file that may have others.
            while (other := same_file(case, sight, event.details, draft.media_id)) is not None:
                if not other.undecided:
                    join(case, other, draft)
                    attach(case, other, place, sight, event.details)
                    case.count(seen=1, kept=1)
                    return
                join(case, draft, other)
        elif file and not same_facts(old, sight):
            stayed = itself(old, sight)
            other = same_file(case, sight, event.details, draft.media_id)
            fresh = other is not None and is_new(case, other)
            if other is not None and not stayed and not fresh:
                lose(draft, place)
                draft.save()
                attach(case, other, place, sight, event.details)
                case.count(seen=1, kept=1)
                return
            if other is not None and stayed and fresh:
                join(case, draft, other)
            replaced = not stayed and (fresh or _differs(draft, event.details) or len(draft.sights) > 1)
        found = _doubts(case, event, place, draft, sight, file=file)
        if found or replaced:
            # What was there may lie elsewhere.
            put_off(case, place, sight, found, event.details)
            return
        if file and event.details is None and not unchanged(old, sight):
            # The scanner knew of another state than this one. It is to look again.
            sight = unread(sight)
    looked = scanned or event.how == "refresh"
    if not same_facts(old, sight):
        draft.note(Change.LOCATORS)
    last_seen = draft.last_seen
    draft.listed = draft.listed or scanned
    draft.back()
    if scanned:
        draft.generation = event.generation
        draft.settle()
    else:
        draft.generation = last_seen
    changed = describe(draft, details, listed=looked, file=file)
    first = not case.seen_now(old)
    gain(case, draft, place, sight)
    draft.save()
    if scanned:
        case.count(seen=1 if first else 0, kept=1 if first else 0, changed=1 if changed else 0)


def _differs(draft: Draft, details: ItemDetails | None) -> bool:
    known = None if draft.details is None else draft.details.content_hash
    return details is not None and details.content_hash is not None and details.content_hash != known


def _doubts(case: Case, event: ItemObserved, place: bytes, draft: Draft, sight: Sight, *, file: bool) -> Candidates:
    """Media that what lies there may be of, instead of the one that is known there."""
    details = event.details if event.details is not None else draft.details
    if draft.undecided:
        # What it was told by shares its evidence with the media it may be.
        found = candidates(case, place, sight, details, "", by_path=True)
        found.pop(draft.media_id, None)
        for media_id in draft.candidates:
            if media_id not in found and not is_seen(case, media_id):
                found[media_id] = evidence.strength(evidence.Kind.HASH, live=True, listed=True)
        return found
    if event.details is None:
        return {}
    if not file:
        return handed.others(case, draft, place, sight, event.details)
    if not _differs(draft, event.details):
        return {}
    return candidates(case, place, sight, event.details, draft.media_id, by_path=False)

"""ItemObserved: something was seen."""

from __future__ import annotations

from schemas.library import ItemObserved
from streams.domain.library import evidence, keys
from streams.domain.library.case import Case
from streams.domain.library.details import describe
from streams.domain.library.draft import Draft, opened
from streams.domain.library.places import (
    fresh_id,
    gain,
    lose,
    place_of,
    same_facts,
    sighted,
    top_is_left,
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
            _attach(case, event, place, same, sight)
            return
        found = candidates(case, place, sight, event.details, "", by_path=True)
        if found:
            put_off(case, place, sight, found, event.details)
            return
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


def _attach(case: Case, event: ItemObserved, place: bytes, draft: Draft, sight: Sight) -> None:
    """One more name of a file that is known. Names that are not seen any more are dropped when the scan ends."""
    was_left = top_is_left(case, evidence.path_of(place, sight)) or bool(draft.sights)
    draft.back()
    gain(case, draft, place, sight)
    draft.note(Change.LOCATORS)
    draft.listed = True
    draft.generation = event.generation
    describe(draft, event.details, listed=True, file=True)
    draft.save()
    case.count(seen=1, kept=1 if was_left else 0)


def _known(case: Case, event: ItemObserved, place: bytes, draft: Draft, sight: Sight, *, scanned: bool) -> None:
    """What is known there is seen again, or something else lies there now."""
    old = draft.sights[place]
    file = place[:1] == keys.PATH
    if not scanned and not draft.status.live and event.how != "refresh" and case.received_at < old.at:
        return  # told before what made it missing was told
    if scanned and event.settled and event.failed is None:
        if file and not same_facts(old, sight):
            other = same_file(case, sight, event.details, draft.media_id)
            if other is not None and not _itself(old, sight):
                lose(draft, place)
                draft.save()
                _attach(case, event, place, other, sight)
                return
        found = _doubts(case, event, place, draft, sight, file=file)
        if found:
            put_off(case, place, sight, found, event.details)
            return
    looked = scanned or event.how == "refresh"
    if not same_facts(old, sight):
        draft.note(Change.LOCATORS)
    last_seen = draft.last_seen
    draft.back()
    if scanned:
        draft.generation = event.generation
        draft.listed = True
        settle(draft)
    else:
        draft.generation = last_seen
    changed = describe(draft, event.details, listed=looked, file=file)
    first = not case.seen_now(old)
    gain(case, draft, place, sight)
    draft.save()
    if scanned:
        case.count(seen=1 if first else 0, kept=1 if first else 0, changed=1 if changed else 0)


def settle(draft: Draft) -> None:
    """It was listed, and belongs to no other media."""
    if draft.status is Status.PROVISIONAL:
        draft.status = Status.PRESENT
        draft.note(Change.COPY if draft.candidates else Change.LOCATORS)
    draft.candidates = ()


def _itself(old: Sight, sight: Sight) -> bool:
    """Whether the file that lay there still does, by device and inode: then it is another's name as well."""
    return sight.inode is not None and (old.device, old.inode) == (sight.device, sight.inode)


def _doubts(case: Case, event: ItemObserved, place: bytes, draft: Draft, sight: Sight, *, file: bool) -> Candidates:
    """Media that what lies there may be of, instead of the one that is known there.

    A server's own id leaves no doubt, except of what no scan has listed before, or could decide.
    """
    details = event.details if event.details is not None else draft.details
    if draft.status is Status.PROVISIONAL:
        found = candidates(case, place, sight, details, draft.media_id, by_path=True)
        for media_id in draft.candidates:
            if media_id not in found and not is_seen(case, media_id):
                found[media_id] = evidence.Strength.HASH
        return found
    if not file or event.details is None:
        return {}
    known = None if draft.details is None else draft.details.content_hash
    if event.details.content_hash is None or event.details.content_hash == known:
        return {}
    return candidates(case, place, sight, event.details, draft.media_id, by_path=False)

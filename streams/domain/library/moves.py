"""What was put off until everything was listed: moves first, one to one; what is left is new, or stays what it was.

A media that was seen by this scan has not moved. One that lies where the scan could not look may have: what was seen
instead is provisional until a later scan tells.
"""

from __future__ import annotations

from dataclasses import replace

from streams.domain.library import evidence, handed, keys
from streams.domain.library.case import Case
from streams.domain.library.details import describe
from streams.domain.library.draft import Draft, opened
from streams.domain.library.evidence import path_of
from streams.domain.library.names import attach, is_new, itself, join, lies_elsewhere
from streams.domain.library.outputs import Merged
from streams.domain.library.places import fresh_id, from_pending, gain, lose, same_facts, unread
from streams.domain.library.rows import Mark, Pending, Row, Sight
from streams.domain.library.skips import Reason, reason_for
from streams.domain.library.suspicion import is_seen, same_file
from streams.domain.library.words import Change, Status


def decide(case: Case, key: bytes, row: Row) -> bool:
    """One suspicion, the strongest first: whether the media moved there. Whether anything was done."""
    case.delete(key)
    media_id, place = keys.suspected(key)
    scan = case.scan
    assert type(row) is Mark
    assert scan is not None
    if row.seen < scan.started or is_seen(case, media_id):
        return False
    draft = opened(case, media_id)
    assert draft is not None, "a suspicion of nothing"
    pending = case.pending(place)
    if pending is None:
        return _was_it(case, draft, place)
    handed_on = place[:1] == keys.UPSTREAM and _decided_at(case, place)
    if handed_on and not evidence.by_content(keys.strength_of(key)) and not handed.proven(case):
        return False
    if pending.blocked or _hidden(case, draft):
        # What stronger evidence speaks of cannot be looked for, so weaker does not decide either.
        case.put(keys.PENDING + place, replace(pending, blocked=(*pending.blocked, media_id)))
        return False
    _move(case, draft, place, pending)
    if handed_on:
        handed.prove(case)
    return True


def _decided_at(case: Case, place: bytes) -> bool:
    """Whether a media is known there that can be no other."""
    owner = case.sight(place)
    draft = None if owner is None else opened(case, owner.media_id)
    return draft is not None and not draft.undecided


def _was_it(case: Case, draft: Draft, place: bytes) -> bool:
    """Another has moved there, by evidence that speaks of both. What only hooks knew, and nobody sees, was that one
    under an id that it had in between."""
    there = case.sight(place)
    if draft.listed or draft.candidates or there is None or not case.seen_now(there):
        return False
    draft.end(there.media_id)
    case.outputs.append(Merged(draft.media_id, there.media_id))
    return True


def _hidden(case: Case, draft: Draft) -> bool:
    paths = [path_of(place, sight) for place, sight in draft.sights.items()]
    return any(path is not None and reason_for(case, path) is Reason.UNREADABLE for path in paths)


def _move(case: Case, draft: Draft, place: bytes, pending: Pending) -> None:
    """The places it had are gone: nothing was seen there."""
    scan = case.scan
    assert scan is not None
    _make_room(case, draft, place)
    draft.sights = {key: sight for key, sight in draft.sights.items() if case.seen_now(sight)}
    there = from_pending(draft.media_id, pending, None)
    same = same_file(case, there, pending.details, draft.media_id)
    if same is not None and same.seen_now and is_new(case, same):
        join(case, draft, same)
    draft.listed = True
    draft.back()
    draft.settle()
    gain(case, draft, place, there)
    draft.note(Change.MOVED)
    draft.generation = scan.generation
    describe(draft, pending.details, listed=True, file=place[:1] == keys.PATH)
    draft.save()
    case.delete(keys.PENDING + place)
    case.count(moved=1, kept=1)


def _make_room(case: Case, draft: Draft, place: bytes) -> None:
    """Take the place from whom it has belonged to. What was provisional there has been this media all along."""
    owner = case.sight(place)
    if owner is None or owner.media_id == draft.media_id:
        return
    other = opened(case, owner.media_id)
    assert other is not None, "a sight of nothing"
    if not other.undecided:
        lose(other, place)
        other.save()
        return
    other.end(draft.media_id)
    case.outputs.append(Merged(other.media_id, draft.media_id))
    for key, sight in other.sights.items():
        if key != place and key[:1] != keys.GHOST:
            draft.sights[key] = replace(sight, media_id=draft.media_id)


def keep(case: Case, key: bytes, row: Row) -> bool:
    """One sighting that no media has moved to: a new one, or the one that is known there. Whether it was of now."""
    assert type(row) is Pending
    place = key[1:]
    pending = case.pending(place)
    case.delete(key)
    if pending is None:
        return False
    owner = case.sight(place)
    draft = None if owner is None else opened(case, owner.media_id)
    sight = from_pending("", pending, owner)
    file = place[:1] == keys.PATH
    same = same_file(case, sight, pending.details, "" if owner is None else owner.media_id) if file else None
    if same is not None and not same.seen_now:
        same = None
    if draft is not None and (file or not draft.undecided):
        other_file = same is not None and not is_new(case, same)
        anew = not file and handed.proven(case) and handed.in_doubt(case, draft, place, pending, pending.details)
        if other_file or anew or lies_elsewhere(case, draft, place, sight):
            # It has moved away, by device and inode or by its id; what lies here is another.
            lose(draft, place)
            draft.save()
            owner = draft = None
            sight = from_pending("", pending, None)
    if draft is None or owner is None:
        if same is not None:
            attach(case, same, place, sight, pending.details)
        else:
            _add(case, place, pending)
        return True
    if same is not None:
        join(case, draft, same)
    _stay(case, draft, place, pending, owner)
    return True


def _stay(case: Case, draft: Draft, place: bytes, pending: Pending, owner: Sight) -> None:
    """What is known there is what was seen."""
    scan = case.scan
    assert scan is not None
    sight = from_pending(draft.media_id, pending, owner)
    replaced = place[:1] == keys.PATH and not itself(owner, sight)
    if not draft.undecided and (pending.blocked or (replaced and _hidden(case, draft))):
        # It may be of a media that cannot be looked for, or have moved there. Until that is told it is as it was, and
        # read again.
        draft.sights[place] = replace(owner, seen=pending.seen, at=pending.at)
        draft.back()
        draft.generation = scan.generation
        draft.save()
        return
    if replaced:
        # Its other names are of the file that it was.
        draft.sights = {
            key: one for key, one in draft.sights.items() if key == place or case.seen_now(one) or itself(one, sight)
        }
    undecided = bool(pending.blocked)
    draft.listed = not undecided
    draft.back()
    if undecided:
        draft.status = Status.PROVISIONAL
        draft.candidates = pending.blocked
    else:
        draft.settle()
    if not same_facts(owner, sight):
        draft.note(Change.LOCATORS)
    draft.generation = scan.generation
    changed = describe(draft, pending.details, listed=True, file=place[:1] == keys.PATH)
    gain(case, draft, place, sight)
    draft.save()
    case.count(changed=1 if changed else 0)


def _add(case: Case, place: bytes, pending: Pending) -> None:
    scan = case.scan
    assert scan is not None
    draft = Draft(case, fresh_id(case, place), None)
    draft.status = Status.PROVISIONAL if pending.blocked else Status.PRESENT
    draft.candidates = pending.blocked
    draft.first_seen_at = pending.logged_at
    draft.listed = True
    draft.generation = scan.generation
    draft.details = pending.details
    draft.note(Change.ADDED)
    if not pending.blocked:
        draft.note(Change.COPY)
    sight = from_pending(draft.media_id, pending, None)
    gain(case, draft, place, unread(sight) if pending.details is None and place[:1] == keys.PATH else sight)
    draft.save()
    case.count(added=1)

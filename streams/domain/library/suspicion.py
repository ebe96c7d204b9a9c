"""Whose is what was seen: what is certain at once, and what waits until everything is listed."""

from __future__ import annotations

from schemas.library import ItemDetails
from streams.domain.library import evidence, keys
from streams.domain.library.case import Case
from streams.domain.library.draft import Draft, opened
from streams.domain.library.evidence import Kind, strength
from streams.domain.library.limits import CANDIDATES_MAX, PLACES_MAX
from streams.domain.library.locators import canonical
from streams.domain.library.places import top_is_left
from streams.domain.library.rows import Mark, Pending, Sight
from streams.domain.library.words import Status

Candidates = dict[str, int]
"""Media, each with how strongly it is suspected; the smallest number is the strongest."""


def same_file(case: Case, facts: Sight, details: ItemDetails | None, besides: str) -> Draft | None:
    """The media, another than ``besides``, of which this is a file under one more name, for certain.

    Device, inode and size are equal, and so are the times of change or the contents; inodes are used again, so
    contents that are known to differ say no.
    """
    key = evidence.by_inode(facts)
    if key is None:
        return None
    told = None if details is None else details.content_hash
    for media_id in sorted(case.named(key)):
        if media_id == besides or (draft := opened(case, media_id)) is None or len(draft.sights) >= PLACES_MAX:
            continue
        known = None if draft.details is None else draft.details.content_hash
        if told is not None and known is not None and told != known:
            continue
        for sight in draft.sights.values():
            if (sight.device, sight.inode, sight.size) == (facts.device, facts.inode, facts.size) and (
                (sight.mtime_ns is not None and sight.mtime_ns == facts.mtime_ns)
                or (told is not None and told == known)
            ):
                return draft
    return None


def candidates(
    case: Case, place: bytes, facts: Sight, details: ItemDetails | None, besides: str, *, by_path: bool
) -> Candidates:
    """Media not seen by this scan to which the evidence of a sighting belongs, each with how strongly.

    Evidence that belongs to ``besides`` as well, whose place it is, speaks for it staying.
    """
    found: dict[str, Kind] = {}
    for key in evidence.by_providers(details):
        _add(case, found, Kind.PROVIDER, case.named(key), besides, details)
    key_of_hash = evidence.by_hash(details)
    if key_of_hash is not None:
        _add(case, found, Kind.HASH, case.named(key_of_hash), besides, None)
    path = evidence.path_of(place, facts)
    if by_path and path is not None:
        meant = canonical(path, folds=case.source.case_folds)
        named = [media for media in case.named(evidence.by_path(path)) if _lies_at(case, media, meant)]
        # The place itself is of ``besides``; that says nothing here.
        _add(case, found, Kind.PATH, tuple(media for media in named if media != besides), "", None)
    strengths = [(_strength(case, media, kinds), media) for media, kinds in found.items()]
    return {media: strong for strong, media in sorted(strengths)[:CANDIDATES_MAX]}


def _add(
    case: Case, found: dict[str, Kind], kind: Kind, named: tuple[str, ...], besides: str, details: ItemDetails | None
) -> None:
    if besides in named:
        return
    for media_id in named:
        if media_id not in found and is_seen(case, media_id):
            continue
        if details is not None:
            item = case.item(media_id)
            if item is not None and not evidence.same_part(item.details, details):
                continue
        found[media_id] = found.get(media_id, kind) | kind


def _strength(case: Case, media_id: str, kinds: Kind) -> int:
    item = case.item(media_id)
    assert item is not None, "evidence of nothing"
    return strength(kinds, live=Status(item.status).live, listed=item.listed or bool(item.candidates))


def is_seen(case: Case, media_id: str) -> bool:
    """Whether the media was seen since the scan began; one that is not known, or ended, can't be."""
    item = case.item(media_id)
    if item is None:
        return True
    return any((sight := case.sight(place)) is not None and case.seen_now(sight) for place in item.places)


def _lies_at(case: Case, media_id: str, meant: bytes) -> bool:
    item = case.item(media_id)
    if item is None:
        return False
    for place in item.places:
        sight = case.sight(place)
        path = None if sight is None else evidence.path_of(place, sight)
        if path is not None and canonical(path, folds=case.source.case_folds) == meant:
            return True
    return False


def put_off(case: Case, place: bytes, facts: Sight, found: Candidates, details: ItemDetails | None) -> None:
    """Keep a sighting until the scan has listed everything. Its place counts as known to be left, nothing as seen."""
    first = case.pending(place) is None
    case.put(
        keys.PENDING + place,
        Pending(
            seen=case.at.offset,
            at=case.received_at,
            logged_at=case.at.logged_at,
            path=facts.path,
            size=facts.size,
            mtime_ns=facts.mtime_ns,
            device=facts.device,
            inode=facts.inode,
            details=details,
            blocked=(),
        ),
    )
    for media_id, strong in found.items():
        case.put(keys.suspect(strong, media_id, place), Mark(case.at.offset))
    if first:
        known = case.sight(place) is not None or top_is_left(case, evidence.path_of(place, facts))
        case.count(seen=1, kept=1 if known else 0)

"""Ids of a server that were handed out anew: a fresh database counts from one again, and gives them to other items.

An id is the strongest evidence there is, so one thing that disagrees with it is a change of the item: a better file, a
rename. Where what it bears and where that lies both disagree, whose it is waits for the end of the scan. It is
another's when that one, seen nowhere else, is told by the same content; once any id was proven to be another's, the
weaker evidence decides about the others in doubt, and what none speaks for is new. Without such a proof an id in doubt
stays with its media: servers that make paths of tags change both at once.
"""

from __future__ import annotations

from schemas.library import ItemDetails, ItemObserved
from streams.domain.library import evidence, keys
from streams.domain.library.case import Case
from streams.domain.library.draft import Draft
from streams.domain.library.evidence import Kind
from streams.domain.library.locators import canonical
from streams.domain.library.rows import Mark, Pending, Sight
from streams.domain.library.suspicion import Candidates, candidates


def in_doubt(case: Case, draft: Draft, place: bytes, facts: Sight | Pending, details: ItemDetails | None) -> bool:
    """Whether content and path both disagree with what is known at a server's ``place``. A path that is not known, of
    a server that tells none, agrees with nothing."""
    if draft.undecided or not _other_content(draft, details):
        return False
    return not _same_path(case, draft.sights[place].path, facts.path) or facts.path is None


def others(case: Case, draft: Draft, place: bytes, facts: Sight, details: ItemDetails | None) -> Candidates:
    """The media, not seen by this scan, that an id ``in_doubt`` may be of now; or a copy that has changed places with
    the one there, which their paths alone tell."""
    if in_doubt(case, draft, place, facts, details):
        found = candidates(case, place, facts, details, draft.media_id, by_path=True)
        found.pop(draft.media_id, None)
        return found
    before = draft.sights[place].path
    if before is None or facts.path is None or _same_path(case, before, facts.path):
        return {}
    exact = {evidence.strength(kinds, live=True, listed=True) for kinds in (Kind.HASH | Kind.PATH, _ALL)}
    found = candidates(case, place, facts, details, "", by_path=True)
    return {
        media: evidence.strength(Kind.PATH, live=True, listed=True)
        for media, strong in found.items()
        if strong in exact and media != draft.media_id
    }


_ALL = Kind.PROVIDER | Kind.HASH | Kind.PATH


def spoils(case: Case, draft: Draft, place: bytes, event: ItemObserved) -> bool:
    """Whether what was told outside of a scan is rather of another media, which only a scan can tell for sure."""
    if draft.undecided or not _other_content(draft, event.details):
        return False
    before = draft.sights[place].path
    if event.locator is not None and before is not None:
        return not _same_path(case, before, event.locator.path)
    key = evidence.by_hash(event.details)
    return key is not None and bool(case.named(key))


def prove(case: Case) -> None:
    """An id was found to be another's."""
    if not proven(case):
        case.put(keys.HANDED, Mark(case.at.offset))


def proven(case: Case) -> bool:
    """Whether this scan has found an id to be another's."""
    mark = case.mark(keys.HANDED)
    return mark is not None and case.scan is not None and mark.seen >= case.scan.started


def _other_content(draft: Draft, details: ItemDetails | None) -> bool:
    known = None if draft.details is None else draft.details.content_hash
    return details is not None and None not in (known, details.content_hash) and details.content_hash != known


def _same_path(case: Case, one: bytes | None, other: bytes | None) -> bool:
    if one is None or other is None:
        return one is other
    folds = case.source.case_folds
    return one == other or canonical(one, folds=folds) == canonical(other, folds=folds)

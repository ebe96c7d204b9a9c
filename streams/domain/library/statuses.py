"""ItemStatusRequested: an operator's word, or reconcile's after the grace."""

from __future__ import annotations

from schemas.library import ItemStatusRequested
from streams.domain.library.case import Case
from streams.domain.library.draft import opened
from streams.domain.library.words import Change, Status


def ask(case: Case, event: ItemStatusRequested) -> None:
    """Archive what is missing, delete whatever it is. What is there again is not archived."""
    draft = opened(case, event.media_id)
    if draft is None:
        return
    wanted = Status(event.status)
    if draft.status is wanted or (wanted is Status.ARCHIVED and draft.status is not Status.MISSING):
        return
    draft.generation = draft.last_seen
    draft.status = wanted
    draft.note(Change.ARCHIVED if wanted is Status.ARCHIVED else Change.DELETED)
    draft.save()

"""Which of two descriptions of an item is believed: one field group, the newer wins whole."""

from __future__ import annotations

from dataclasses import replace

from schemas.library import ItemDetails
from streams.domain.library.draft import Draft
from streams.domain.library.words import Change


def describe(draft: Draft, told: ItemDetails | None, *, listed: bool, file: bool) -> bool:
    """Take what was told of the item, unless what is known is newer; whether anything that can be seen changed.

    ``listed``: told by a scan, which looks at the thing itself. A hook tells less, so it must be newer. Other content
    of a ``file`` is the truth whatever its time of change says: files are replaced by older ones.
    """
    known = draft.details
    if told is None or told == known:
        return False
    if known is None:
        draft.details = told
        if draft.was is not None:
            draft.note(Change.DETAILS)
        return True
    content = told.content_hash is not None and told.content_hash != known.content_hash
    if not (file and listed and content) and not _newer(known.version, told.version, listed=listed):
        return False
    if not listed and told.content_hash is None:
        told = replace(told, content_hash=known.content_hash)
    draft.details = told
    if content:
        draft.note(Change.CONTENT)
    if replace(told, version=None, content_hash=None) != replace(known, version=None, content_hash=None):
        draft.note(Change.DETAILS)
    return content or Change.DETAILS in draft.changes


def _newer(known: int | None, told: int | None, *, listed: bool) -> bool:
    if known is None or told is None:
        return listed
    return told >= known if listed else told > known

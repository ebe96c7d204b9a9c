"""ItemRemovalObserved: a hook or a poll says that an item is gone.

One by one they are believed; more than a scan would be allowed to remove, within ten minutes of log time, are not.
Those of the window that were believed are taken back then, and until a scan has come to its end the source is held:
what is really gone, that scan will tell.
"""

from __future__ import annotations

from dataclasses import replace

from schemas.library import FinalizeContinued, ItemRemovalObserved
from streams.domain.library import keys
from streams.domain.library.case import Case
from streams.domain.library.draft import opened
from streams.domain.library.limits import BUCKET_MS, RESTORED_MAX, WINDOW_MS, removals_max
from streams.domain.library.outputs import Continued, Hold
from streams.domain.library.rows import Bucket, Mark
from streams.domain.library.words import RESTORE, Change, Status, Why

_MINUTES = WINDOW_MS // BUCKET_MS
_TIMED = len(keys.REMOVED) + 8
"""Where the media begins in the key of a removal: behind the minute it was told in."""


def remove(case: Case, event: ItemRemovalObserved) -> None:
    place = keys.upstream(event.upstream_id)
    pending = case.pending(place)
    if pending is not None and pending.at <= event.received_at:
        case.delete(keys.PENDING + place)
    sight = case.sight(place)
    draft = None if sight is None else opened(case, sight.media_id)
    if sight is None or draft is None or not draft.status.live or case.source.held:
        return
    if event.received_at < sight.at:
        return  # told before it was seen
    if len(draft.sights) > 1:
        # One of several ids of it: an older one, or a server's second copy.
        del draft.sights[place]
        draft.note(Change.LOCATORS)
        draft.save()
        return
    minute = case.at.logged_at // BUCKET_MS
    recent = [bucket for bucket in case.source.removals if bucket.minute > minute - _MINUTES]
    told = 1 + sum(bucket.count for bucket in recent)
    if told > removals_max(case.tally.live + told - 1):
        _hold(case, minute, told)
        return
    draft.generation = draft.last_seen
    draft.status = Status.MISSING
    draft.note(Change.UPSTREAM_REMOVED)
    draft.note(Change.MISSING)
    draft.sights[place] = replace(sight, at=event.received_at)
    draft.save()
    case.put(keys.REMOVED + minute.to_bytes(8, "big") + draft.media_id.encode(), Mark(case.at.offset))
    of_now = next((bucket for bucket in recent if bucket.minute == minute), Bucket(minute, 0))
    others = (bucket for bucket in recent if bucket.minute != minute)
    case.source = replace(case.source, removals=(*others, replace(of_now, count=of_now.count + 1)))


def _hold(case: Case, minute: int, told: int) -> None:
    """Believe no more of them, and none of those that were told just now."""
    case.source = replace(case.source, held=True, removals=())
    case.outputs.append(Hold(True, Why.MASS_REMOVAL.value, told))
    _restore(case, keys.REMOVED + max(0, minute - _MINUTES + 1).to_bytes(8, "big"))


def go_on(case: Case, event: FinalizeContinued) -> None:
    """Take back more of them. A scan that came to its end meanwhile has told what is really gone."""
    if case.source.held:
        _restore(case, event.cursor)


def _restore(case: Case, after: bytes) -> None:
    """Take back RESTORED_MAX of those behind a key, and leave the others to the next record."""
    rows = case.rows(keys.REMOVED, after, RESTORED_MAX)
    for key, row in rows:
        draft = opened(case, key[_TIMED:].decode())
        if draft is not None and draft.status is Status.MISSING and type(row) is Mark:
            draft.back()
            draft.save()
        case.delete(key)
    if len(rows) == RESTORED_MAX:
        scan = case.scan
        case.outputs.append(Continued(0 if scan is None else scan.generation, RESTORE, rows[-1][0]))

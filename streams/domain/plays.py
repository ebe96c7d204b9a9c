"""What every report may add, whatever its verdict: a play once per epoch, listening time once per session."""

from __future__ import annotations

from typing import NamedTuple

from streams.domain.case import Case
from streams.domain.draft import Draft, SessionDraft
from streams.domain.limits import LISTENED_GROWTH_MS_MAX
from streams.domain.state import PreviousEpoch
from streams.domain.words import Note


class Play(NamedTuple):
    """A play that was counted, and for which epoch."""

    epoch: int


def count_play(draft: Draft, event_time: int, *, of_this_epoch: bool) -> Play | None:
    """Count a play in the epoch it belongs to, unless that has counted one.

    One of the epoch before counts there without touching the present: neither `played` nor last_played_at.
    Older ones are forgotten history.
    """
    if of_this_epoch:
        if draft.counted:
            return None
        draft.counted = True
        draft.played = True
        draft.play_count += 1
        draft.last_played_at = max(draft.last_played_at or event_time, event_time)
        return Play(draft.epoch)
    before = draft.previous_epoch
    if before is None or before.counted or (before.started_at is not None and event_time < before.started_at):
        return None
    draft.previous_epoch = PreviousEpoch(before.started_at, True)
    draft.play_count += 1
    return Play(draft.epoch - 1)


def listened_growth(case: Case, draft: Draft, session: SessionDraft, *, known: bool) -> int:
    """How much this report adds to the total (ms, >= 0); the session's maximum rises with it.

    `listened_ms` is the session's total so far, so only growth counts. An unknown session that may have been
    evicted adds nothing: its time may be in the total already. More than 24 h at once, or less than nothing,
    is not believed, and the maximum stays.
    """
    stated = case.report.listened_ms
    if stated is None:
        return 0
    growth = stated - session.listened_max_ms
    if stated < 0 or growth > LISTENED_GROWTH_MS_MAX:
        case.notes.append(Note.LISTENED_IMPLAUSIBLE)
        return 0
    if growth <= 0:
        return 0
    session.listened_max_ms = stated
    if not known and draft.evicted_before is not None and case.event_time <= draft.evicted_before:
        return 0
    return growth

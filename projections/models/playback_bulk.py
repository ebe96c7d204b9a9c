"""The playback fold for a rebuild from the first record: as the usual one, with what nobody asks for left out.

In a log that is read once from its beginning positions never repeat, so listening time goes straight into its table;
rows of the stage are made only of records that leave another row: the newest of its key, a turn or the first progress
of its minute, a play. Explanations that have expired are not written. Nothing is invalidated.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from projections.base import Bulk, Record, Step
from projections.copying import lines, text
from projections.models import playback_sql as sql
from projections.models.playback_rows import changes_state, is_turn, minute_of
from projections.models.playback_stage import per_key, stage_row
from schemas.events import PlaybackDecided, UserForgotten


class PlaybackBulk(Bulk[PlaybackDecided | UserForgotten]):
    def __init__(self, forgotten: set[str], since: date) -> None:
        """``forgotten``: who was, before the first batch; ``since``: explanations are kept from this day on."""
        self._forgotten = forgotten
        self._since_ms = int(datetime(since.year, since.month, since.day, tzinfo=UTC).timestamp() * 1000)

    def steps(self, batch: Sequence[Record[PlaybackDecided | UserForgotten]]) -> list[Step] | None:
        if any(isinstance(record.event, UserForgotten) for record in batch):
            self._forgotten |= {one.event.user_ref for one in batch if isinstance(one.event, UserForgotten)}
            return None
        decisions: list[Record[PlaybackDecided]] = [
            record  # type: ignore[misc]
            for record in batch
            if not self._forgotten or record.event.user_ref not in self._forgotten
        ]
        newest, moved = per_key(decisions)
        minutes: set[tuple[object, ...]] = set()
        staged: list[tuple[Any, ...]] = []
        listening: list[str] = []
        recent = False
        for record in decisions:
            event, cause = record.event, record.event.cause
            if event.listened_added_ms > 0:
                listening.append(
                    f"{text(cause.topic_id)}\t{cause.partition}\t{cause.offset}\t{cause.index}\t{text(event.user_ref)}\t"
                    f"{text(event.media_id)}\t{text(event.source_id)}\t{event.report_event_time}\t"
                    f"{event.listened_added_ms}\t{record.partition}\t{record.log_epoch}\t{record.offset}\n"
                )
            key = (event.user_ref, event.media_id)
            is_newest = newest.get(key) is record
            is_recent = event.logged_at >= self._since_ms
            recent = recent or is_recent
            if is_recent or is_newest or event.play_counted or _begins(event, minutes):
                staged.append(stage_row(record, is_newest, moved.get(key)))
        found: list[Step] = []
        if listening:
            found.append(Step(sql.COPY_LISTENING, "".join(listening).encode()))
        if staged:
            found.append(Step(sql.COPY_STAGE, lines(staged)))
            if recent:
                found.append(Step(sql.INSERT_PROCESSED_SINCE.format(since_ms=self._since_ms)))
            found += [Step(one) for one in (sql.INSERT_HISTORY, sql.INSERT_PLAYS, sql.UPSERT_PROGRESS)]
        return found


def _begins(event: PlaybackDecided, minutes: set[tuple[object, ...]]) -> bool:
    """Whether this may be a row of the history: a turn, or progress in a minute that none before it was in."""
    if is_turn(event):
        return True
    if not changes_state(event) or event.verdict == "ignored":
        return False
    minute = minute_of(event)
    if minute in minutes:
        return False
    minutes.add(minute)
    return True

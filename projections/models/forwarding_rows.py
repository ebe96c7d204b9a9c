"""What a decision means for other servers: pure functions of the record."""

from __future__ import annotations

from projections.models.playback_rows import changes_state
from schemas.events import PlaybackDecided
from streams.domain.forwarding import Place
from streams.domain.policy import KIND_RULES
from streams.domain.words import MediaKind

_FROM_SERVERS = frozenset({"webhook", "poll", "import", "reconcile", "echo"})


def place_of(event: PlaybackDecided) -> Place | None:
    """How playback should stand after this decision; None: it says nothing that another server can be told."""
    if not changes_state(event) or not event.position_moved:
        return None
    if event.phase == "finished":
        return "finished"
    if event.kind == "mark_unplayed":
        return "unplayed"
    rule = KIND_RULES[MediaKind(event.media_kind)]
    return "at" if rule.offers_resume(event.duration_ms) else None


def play_of(event: PlaybackDecided) -> int | None:
    """When the play was that this decision counted, epoch ms; None: it counted none."""
    return event.report_event_time if changes_state(event) and event.play_counted else None


def is_soon(event: PlaybackDecided) -> bool:
    """Whether somebody may go on elsewhere now: plain progress, which comes every few seconds, can wait."""
    return event.kind != "progress" or event.phase == "finished"


def is_of_server(event: PlaybackDecided) -> bool:
    """Whether the source's own server said so, and needs not be told. A client's word, or a person's, it has not
    heard."""
    return event.origin in _FROM_SERVERS

"""What the codecs of the events are made from: every pinned schema, and the classes in ``schemas/events.py``."""

from __future__ import annotations

from schemas import library
from schemas.codec.plan import Coded, Limits, Plan
from schemas.events import EVENTS, Conflict, Pending, SourcePosition
from schemas.limits import ID_BYTES_MAX, NOTES_MAX, TEXT_BYTES_MAX
from schemas.versions import newest, versions

LONG_TEXTS = frozenset({"error_text", "cache_key", "reason", "title", "name", "artists", "detail"})
LIMITS = Limits(
    long_texts=LONG_TEXTS, long_text_bytes_max=TEXT_BYTES_MAX, text_bytes_max=ID_BYTES_MAX, items_max=NOTES_MAX
)
_NESTED = {kind.__name__: kind for kind in (SourcePosition, Pending, Conflict, *library.PARTS)}

PLAN = Plan(
    package="schemas.codec",
    coded=tuple(
        Coded(
            name=event,
            writers={schema.version: schema.text for schema in versions() if schema.event == event},
            writes=newest(event).version,
            classes={event: kind, **_NESTED},
        )
        for event, kind in sorted(EVENTS.items())
    ),
    limits=LIMITS,
)

"""A draft as it lies in the spool, and back: JSON, so that a later build reads what an earlier one left."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, Final

from streams.ingest.draft import Draft
from streams.ingest.hooks import Listen, ParsedReport
from streams.ingest.media import Named
from streams.runtime.spool import Entry

VERSION: Final = 1


class Unreadable(Exception):
    """Not written by any build this one knows."""


def entry_of(draft: Draft) -> Entry:
    """All of a draft but what identifying it will find: whoever it is, whatever it is called, since when."""
    report = {name: value for name, value in asdict(draft.report).items() if value is not None}
    document = {
        "version": VERSION,
        "event_id": draft.event_id,
        "correlation_id": draft.correlation_id,
        "received_at": draft.received_at,
        "user": draft.user,
        "bound": draft.bound,
        "named": draft.named.name,
        "may_be_ours": draft.named.may_be_ours,
        "way": draft.way,
        "listen": isinstance(draft.report, Listen),
        "report": report,
    }
    source_id, user = draft.whose
    return Entry(source_id, user, json.dumps(document, separators=(",", ":")).encode())


def draft_of(entry: Entry, index: int) -> Draft:
    """The draft again. Raises Unreadable."""
    try:
        document: dict[str, Any] = json.loads(entry.data)
        if document["version"] != VERSION:
            raise Unreadable(f"version {document['version']}")
        return Draft(
            index=index,
            report=(Listen if document["listen"] else ParsedReport)(**document["report"]),
            source_id=entry.source_id,
            user=document["user"],
            named=Named(document["named"], document["may_be_ours"]),
            bound=document["bound"],
            correlation_id=document["correlation_id"],
            received_at=document["received_at"],
            event_id=document["event_id"],
            way=document.get("way"),
        )
    except (ValueError, TypeError, KeyError) as exc:
        raise Unreadable(type(exc).__name__) from None

"""A draft as it lies in the spool, and back: JSON, so that a later build reads what an earlier one left."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any, Final

from schemas.topics import LIBRARY_OBSERVED
from streams.ingest.draft import Draft
from streams.ingest.hooks import Listen, ParsedReport
from streams.ingest.media import Named
from streams.runtime.publisher import Record
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


def entry_of_news(source_id: str, record: Record) -> Entry:
    """News of the library needs nobody identified: the record as it will be, for nobody in particular."""
    document = {
        "version": VERSION,
        "topic": record.topic,
        "partition": record.partition,
        "key": base64.b64encode(record.key).decode(),
        "value": base64.b64encode(record.value).decode(),
    }
    return Entry(source_id, "", json.dumps(document, separators=(",", ":")).encode())


def news_of(entry: Entry) -> Record | None:
    """The record again; None when the entry is no news. Raises Unreadable."""
    try:
        document: dict[str, Any] = json.loads(entry.data)
        if "topic" not in document:
            return None
        if document["version"] != VERSION or document["topic"] != LIBRARY_OBSERVED.name:
            raise Unreadable("another topic or version")
        return Record(
            LIBRARY_OBSERVED.name,
            int(document["partition"]),
            base64.b64decode(document["key"], validate=True),
            base64.b64decode(document["value"], validate=True),
        )
    except (ValueError, TypeError, KeyError) as exc:
        raise Unreadable(type(exc).__name__) from None


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

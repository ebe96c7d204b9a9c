"""The writer schemas this build knows, pinned in the repository as ``avro/<Event>.v<N>.avsc``.

Decoding uses these and nothing else, so it works with the registry away, and a hostile registry cannot change
what bytes mean. A schema is recognised by its fingerprint, the SHA-256 of its parsing canonical form (Apache
Avro 1.12 specification, "Parsing Canonical Form for Schemas").
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from fastavro import parse_schema
from fastavro.schema import fingerprint as avro_fingerprint
from fastavro.schema import to_parsing_canonical_form

from schemas.rules import NAMESPACE
from schemas.topics import topic_of

_FILE = re.compile(r"^(?P<event>[A-Za-z]+)\.v(?P<version>[0-9]+)\.avsc$")
# Registries count ids up from 1; pinned ids sit above any they will reach and below the sign bit.
_PINNED_ID_BASE = 1 << 30


@dataclass(frozen=True, slots=True)
class WriterSchema:
    """One version of one event's schema. ``pinned_id`` is derived from the fingerprint, so every build that
    knows the schema agrees on it without asking anybody."""

    event: str
    version: int
    text: str
    parsed: Any
    fingerprint: str
    pinned_id: int


def fingerprint_of(schema: str | Mapping[str, Any]) -> str:
    """SHA-256, hex, of the canonical form of ``schema`` (JSON text or parsed). ValueError when it is none."""
    try:
        parsed = json.loads(schema) if isinstance(schema, str) else dict(schema)
        return str(avro_fingerprint(to_parsing_canonical_form(parsed), "SHA-256"))
    except Exception as exc:  # fastavro raises many kinds for a bad schema; all mean the same here
        raise ValueError(f"not an Avro schema: {exc}") from exc


@cache
def versions() -> tuple[WriterSchema, ...]:
    """All schemas of this build, by event and rising version."""
    found = []
    for entry in files("schemas").joinpath("avro").iterdir():
        match = _FILE.match(entry.name)
        if match is None:
            continue
        text = entry.read_text(encoding="utf-8")
        document = json.loads(text)
        digest = fingerprint_of(document)
        found.append(
            WriterSchema(
                event=match["event"],
                version=int(match["version"]),
                text=text,
                parsed=parse_schema(document, named_schemas={}),
                fingerprint=digest,
                pinned_id=_PINNED_ID_BASE | (int(digest[:8], 16) & (_PINNED_ID_BASE - 1)),
            )
        )
    return tuple(sorted(found, key=lambda schema: (schema.event, schema.version)))


@cache
def newest(event: str) -> WriterSchema:
    """The schema this build writes ``event`` with. KeyError when there is no such event."""
    of_event = [schema for schema in versions() if schema.event == event]
    if not of_event:
        raise KeyError(event)
    return of_event[-1]


def by_fingerprint(digest: str) -> WriterSchema | None:
    """The schema with this fingerprint, or None when this build does not know it."""
    return next((schema for schema in versions() if schema.fingerprint == digest), None)


def subject_of(event: str) -> str:
    """The registry subject of an event: ``<topic>-value`` where its topic holds nothing else (Confluent's
    TopicNameStrategy), else ``<topic>-<full name>`` (TopicRecordNameStrategy)."""
    topic = topic_of(event)
    return f"{topic.name}-value" if topic.holds == (event,) else f"{topic.name}-{NAMESPACE}.{event}"

"""Where a record lies."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The record that caused another: unique for ever, because a recreated topic has another ``topic_id``."""

    topic_id: str
    partition: int
    offset: int
    index: int

"""What reconcile can find, by cause, and what mends each. Every mending is a word to the log; none writes a row.

Two findings with the same mending are mended once: mendings are values, kept in a set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from streams.ingest.hooks import ParsedReport

EXAMPLES_MAX: Final = 20
"""Of each cause so many are told; all are counted."""


class Scope(StrEnum):
    """What is compared, in the order it is done."""

    ORPHANS = "orphans"
    ALIASES = "aliases"
    LIBRARY = "library"
    PROGRESS = "progress"
    CACHE = "cache"
    ROWS = "rows"


class Cause(StrEnum):
    ROW_EDITED = "row_edited"
    ROW_DELETED = "row_deleted"
    ROW_EXTRA = "row_extra"
    ROWS_MORE = "rows_more"
    ORPHAN_PROGRESS = "orphan_progress"
    ORPHAN_MEDIA = "orphan_media"
    ORPHAN_TASK = "orphan_task"
    ORPHAN_LOCATOR = "orphan_locator"
    ORPHAN_MEMBER = "orphan_member"
    ALIAS_LOST = "alias_lost"
    MERGE_NOT_APPLIED = "merge_not_applied"
    MISSING_HERE = "missing_here"
    GONE_UPSTREAM = "gone_upstream"
    FACTS_DIFFER = "facts_differ"
    MOVED_UPSTREAM = "moved_upstream"
    GRACE_OVER = "grace_over"
    UPSTREAM_CHANGED = "upstream_changed"
    FORWARD_LOST = "forward_lost"
    CACHE_STALE = "cache_stale"
    CACHE_AHEAD = "cache_ahead"
    INVALIDATION_LOST = "invalidation_lost"


MEANING: Final[dict[Cause, str]] = {
    Cause.ROW_EDITED: "the row is not what the log makes of it",
    Cause.ROW_DELETED: "the log makes a row that is not there",
    Cause.ROW_EXTRA: "there is a row that the log does not make",
    Cause.ROWS_MORE: "more rows of this table differ than were looked at one by one",
    Cause.ORPHAN_PROGRESS: "playback of a media its library has not listed, and no scan has looked for since",
    Cause.ORPHAN_MEDIA: "an item of a source that is no more",
    Cause.ORPHAN_TASK: "a task of a source that is no more",
    Cause.ORPHAN_LOCATOR: "a place without an item",
    Cause.ORPHAN_MEMBER: "an entry of a collection without its item",
    Cause.ALIAS_LOST: "the door does not know a media by a name the library gave it",
    Cause.MERGE_NOT_APPLIED: "a media that ended is still listed",
    Cause.MISSING_HERE: "the source has it, the library does not",
    Cause.GONE_UPSTREAM: "the library has it, the source does not",
    Cause.FACTS_DIFFER: "the source tells something else about it",
    Cause.MOVED_UPSTREAM: "it lies elsewhere in its source by now",
    Cause.GRACE_OVER: "missing for longer than the grace, and not archived",
    Cause.UPSTREAM_CHANGED: "the server has a newer state than was ever reported",
    Cause.FORWARD_LOST: "the server does not have what it was to be told",
    Cause.CACHE_STALE: "the cache has another answer than the rows of the same version",
    Cause.CACHE_AHEAD: "the cache has a version the rows have never had",
    Cause.INVALIDATION_LOST: "the rows are newer than the cache, and nobody told it",
}


_SCOPES: Final = {
    Scope.ORPHANS: ("orphan_",),
    Scope.ALIASES: ("alias_", "merge_"),
    Scope.LIBRARY: ("missing_", "gone_", "facts_", "moved_", "grace_"),
    Scope.PROGRESS: ("upstream_", "forward_"),
    Scope.CACHE: ("cache_", "invalidation_"),
    Scope.ROWS: ("row",),
}


def scope_of(cause: Cause) -> Scope:
    """What is compared when it is found."""
    return next(scope for scope, names in _SCOPES.items() if cause.startswith(names))


@dataclass(frozen=True, slots=True)
class Refold:
    """The projection's read models are made anew from its log and put in the place of the live ones."""

    projection: str


@dataclass(frozen=True, slots=True)
class Scan:
    """A scan is asked for, with details of everything."""

    source_id: str


@dataclass(frozen=True, slots=True)
class SetStatus:
    """The library is asked to archive or delete an item."""

    source_id: str
    media_id: str
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class CancelScan:
    """What waits of scans up to this generation is called off."""

    source_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Tell:
    """What a server says is reported; the rules decide what comes of it."""

    source_id: str
    report: ParsedReport


@dataclass(frozen=True, slots=True)
class ForwardAgain:
    """A server is to be told once more how playback of this stands; it is asked first what it has."""

    source_id: str
    user_ref: str
    media_id: str


@dataclass(frozen=True, slots=True)
class Invalidate:
    """The cache is told that a key is stale below this version, in the key's home partition."""

    cache_key: str
    log_epoch: int
    partition: int
    version: int


@dataclass(frozen=True, slots=True)
class Flush:
    """The cache is told that everything is stale."""


Repair: TypeAlias = Refold | Scan | SetStatus | CancelScan | Tell | ForwardAgain | Invalidate | Flush


@dataclass(slots=True)
class Drift:
    """One cause. ``examples``: the first, each in names of ours only."""

    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Findings:
    """What one run found. ``looked_at``: how many things each scope compared; ``passed_over``: what could not be
    compared, and why; ``settled``: differences that are right as they are, by why."""

    drift: dict[Cause, Drift] = field(default_factory=dict)
    repairs: set[Repair] = field(default_factory=set)
    looked_at: dict[Scope, int] = field(default_factory=dict)
    passed_over: list[tuple[Scope, str, str]] = field(default_factory=list)
    settled: dict[str, int] = field(default_factory=dict)

    def add(self, cause: Cause, what: str, repair: Repair | None = None, *, times: int = 1) -> None:
        drift = self.drift.setdefault(cause, Drift())
        drift.count += times
        if len(drift.examples) < EXAMPLES_MAX:
            drift.examples.append(what)
        if repair is not None:
            self.repairs.add(repair)

    def looked(self, scope: Scope, things: int) -> None:
        self.looked_at[scope] = self.looked_at.get(scope, 0) + things

    def pass_over(self, scope: Scope, what: str, why: str) -> None:
        self.passed_over.append((scope, what, why))

    def settle(self, why: str) -> None:
        self.settled[why] = self.settled.get(why, 0) + 1

    @property
    def count(self) -> int:
        return sum(one.count for one in self.drift.values())

    @property
    def compared(self) -> bool:
        """False when there was something to compare, and nothing of it could be."""
        return not self.passed_over or bool(self.count) or any(self.looked_at.values())

    def saw(self, scope: Scope) -> bool:
        """False when nothing could be compared of this."""
        return bool(self.looked_at.get(scope)) or scope not in {passed for passed, _, _ in self.passed_over}

    def causes(self) -> Iterator[tuple[Cause, Drift]]:
        """In the order of Cause."""
        return ((cause, self.drift[cause]) for cause in Cause if cause in self.drift)

    def as_json(self) -> dict[str, Any]:
        return {
            "drift": {
                cause.value: {"means": MEANING[cause], "count": one.count, "examples": one.examples}
                for cause, one in self.causes()
            },
            "looked_at": {scope.value: things for scope, things in self.looked_at.items()},
            "passed_over": [{"scope": scope.value, "what": what, "why": why} for scope, what, why in self.passed_over],
            "settled": dict(self.settled),
        }

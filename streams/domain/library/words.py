"""The vocabularies of the library rules, as the contract spells them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Status(StrEnum):
    """Of an item. ``live``: it counts as being there."""

    PRESENT = "present"
    PROVISIONAL = "provisional"
    MISSING = "missing"
    ARCHIVED = "archived"
    DELETED = "deleted"

    @property
    def live(self) -> bool:
        return self is Status.PRESENT or self is Status.PROVISIONAL


class Change(StrEnum):
    """What changed about an item."""

    ADDED = "added"
    COPY = "copy"
    BACK = "back"
    MOVED = "moved"
    CONTENT = "content"
    DETAILS = "details"
    LOCATORS = "locators"
    ALIAS = "alias"
    READABLE = "readable"
    UNREADABLE = "unreadable"
    MISSING = "missing"
    UPSTREAM_REMOVED = "upstream_removed"
    ARCHIVED = "archived"
    IGNORED = "ignored"
    DELETED = "deleted"


class ScanStatus(StrEnum):
    RUNNING = "running"
    FINALIZING = "finalizing"
    HELD = "held"
    FINALIZED = "finalized"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    INCOMPLETE = "incomplete"

    @property
    def open(self) -> bool:
        """More may become of it."""
        return self in (ScanStatus.RUNNING, ScanStatus.FINALIZING, ScanStatus.HELD)


class Step(StrEnum):
    """The end of a scan, in this order."""

    MOVES = "moves"
    COPIES = "copies"
    ASSESS = "assess"
    MISSING = "missing"
    CLEAN = "clean"


RESTORE: Final = "restore"
"""What is gone on with outside of a scan's end: taking back removals that were too many."""


class Why(StrEnum):
    """Why a scan was held, is incomplete or was broken off."""

    ROOT_CHANGED = "root_changed"
    MASS_REMOVAL = "mass_removal"
    OBSERVATIONS_LOST = "observations_lost"
    LISTING_INCOMPLETE = "listing_incomplete"
    CANCELLED = "cancelled"


HOW = frozenset(("scan", "hook", "poll", "refresh"))
SKIPPED = frozenset(("unreadable", "ignored"))

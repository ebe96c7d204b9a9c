"""The numbers of the library rules, each with its unit."""

from __future__ import annotations

from typing import Final

PATH_BYTES_MAX: Final = 4_096
"""As Linux has it (PATH_MAX)."""

REMOVALS_FLOOR: Final = 5
REMOVALS_PERCENT: Final = 10
"""Removals up to the larger of these two, of the items present before, are believed at once."""
WINDOW_MS: Final = 10 * 60_000
"""Log time over which removals told by hooks are added up."""
BUCKET_MS: Final = 60_000

ROWS_READ_MAX: Final = 5_000
ROWS_WORKED_MAX: Final = 400
"""Of one step at the end of a scan: rows looked at, and items decided. An agent's loop must not stand still."""

RESTORED_MAX: Final = 400
"""Items that one record takes back when removals told by hooks turn out to be too many."""

SHARED_MAX: Final = 32
"""Media that may share an evidence; it does not speak of any more. Of more equal files that are all moved by copying
at once, the others are missing, with their state, and what lies there instead is new."""
CANDIDATES_MAX: Final = SHARED_MAX
"""Of one sighting: fewer, and equal files would be put off for the same few, and the others be lost sight of."""
PLACES_MAX: Final = 256
"""Places of one media: hard links to one file."""
LOCATORS_SHOWN_MAX: Final = 16
"""Of an ItemChanged."""


def removals_max(present_before: int) -> int:
    """How many of the items present before may go without a question."""
    return max(REMOVALS_FLOOR, present_before * REMOVALS_PERCENT // 100)

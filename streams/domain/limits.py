"""The numbers of the playback rules, each with its unit. Limits of the contract are in `schemas.limits`."""

from __future__ import annotations

from typing import Final

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
DAY_MS: Final = 24 * 60 * MINUTE_MS

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

# Rule 0
POSITION_MS_MAX: Final = 30 * DAY_MS
OVERRUN_PERCENT: Final = 1
OVERRUN_MS: Final = 60 * SECOND_MS

# Time
SECONDS_FROM: Final = 946_684_800
"""2000-01-01 in epoch seconds: the smallest number read as seconds."""
SECONDS_TO: Final = 4_102_444_800
"""2100-01-01 in epoch seconds: the largest number read as seconds."""
PLAUSIBLE_FROM_MS: Final = SECONDS_FROM * SECOND_MS
CLOCK_AHEAD_MS: Final = 60 * SECOND_MS

# Runs, sessions and memory
RUN_GAP_MS: Final = 30 * MINUTE_MS
SESSIONS_MAX: Final = 8
EVENT_IDS_MAX: Final = 64
SEQUENCES_BELOW_MAX: Final = 63
PLACES_MAX: Final = 8
PLAYING_STEP_MS: Final = 10 * SECOND_MS
"""A step of a run up to this is playing on; only where it jumps is worth a place in its memory."""
LISTENED_GROWTH_MS_MAX: Final = DAY_MS

# Ordering and takeover
TIE_MS: Final = 10 * SECOND_MS
BEHIND_MS: Final = 30 * SECOND_MS
CONFLICT_AHEAD_MS: Final = 60 * SECOND_MS
PROOF_MS: Final = 30 * SECOND_MS
PROOF_SPEED_MAX: Final = 4

# Near the start
NEAR_START_PERCENT: Final = 5
NEAR_START_MS: Final = 60 * SECOND_MS

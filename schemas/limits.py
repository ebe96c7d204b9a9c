"""Limits of the contract, each with its unit. The door and the log both hold to them."""

from __future__ import annotations

BODY_BYTES_MAX = 1024 * 1024
REPORTS_PER_REQUEST_MAX = 1_000
DOOR_RECORD_BYTES_MAX = 64 * 1024
LOG_RECORD_BYTES_MAX = 256 * 1024
TEXT_BYTES_MAX = 1024
ID_BYTES_MAX = 256
JSON_DEPTH_MAX = 32
NOTES_MAX = 16
JOINED_MAX = 16
"""Media whose state one state may have taken in, as a decision lists them (``PlaybackDecided.joined``)."""

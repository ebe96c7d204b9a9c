"""Times as servers write them: ISO 8601 with any number of digits of a second, with or without a zone (UTC then)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?")


def moment(value: object) -> int | None:
    """Epoch ms, cut; None when it is no time, or one before 1971, which stands for never."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    zone = match[3] if match[3] not in (None, "Z") else "+00:00"
    try:
        seconds = int(datetime.fromisoformat(f"{match[1]}{zone}").astimezone(UTC).timestamp())
    except (ValueError, OverflowError):
        return None
    return seconds * 1000 + int(((match[2] or "") + "000")[:3]) if seconds > 31_536_000 else None

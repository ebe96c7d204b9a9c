"""Times of other people's servers to epoch ms.

Seen in the wild: RFC 3339 with seven or nine digits of a second (.NET, Go), with an offset, without any
zone (supysonic, meaning UTC), and year 1 for never (.NET's and Go's zero).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,12}))?\s*(?:([Zz])|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def parse_moment(text: str) -> int | None:
    """Epoch ms of an ISO time (fractions cut, no zone read as UTC).

    None when the text is no such time, and when it lies before 1970: no server played anything then,
    those are zero values.
    """
    found = _MOMENT.fullmatch(text[:64].strip())
    if found is None or int(found.group(6)) > 60:
        return None
    year, month, day, hour, minute, second = (int(found.group(n)) for n in range(1, 7))
    try:
        # A leap second is the last of its minute for every clock that matters here.
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        if found.group(9) is not None:
            offset = timedelta(hours=int(found.group(10)), minutes=int(found.group(11)))
            moment = moment - offset if found.group(9) == "+" else moment + offset
    except (ValueError, OverflowError):
        return None
    milliseconds = (moment - _EPOCH) // _MILLISECOND + int((found.group(7) or "0").ljust(3, "0")[:3])
    return milliseconds if milliseconds >= 0 else None

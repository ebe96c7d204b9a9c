"""Payloads of Jellyfin templates that are not quite JSON.

A template pastes values between quotes. A quote in an overview, a number that is absent (`"Year": ,`),
an unquoted `True`, a comma too many: each breaks the whole document (jellyfin-plugin-webhook #44, #217).
The fields a report needs never hold free text, so they can be read out one by one and the broken rest
left alone.
"""

from __future__ import annotations

import re
from typing import Final

from streams.ingest.hooks.checks import Refuse

# Only fields whose values are ids, numbers, words or times. Name is taken too, for observations, when
# it is whole.
_KEY = re.compile(
    r'"(NotificationType|ItemId|ItemType|UserId|DeviceId|PlaySessionId|PlaybackPositionTicks|RunTimeTicks'
    r"|IsPaused|IsAutomated|PlayedToCompletion|Played|SaveReason|UtcTimestamp|Timestamp|Name"
    r'|Provider_[a-z0-9]{1,32})"\s*:\s*',
    re.IGNORECASE,
)
_VALUE = re.compile(r'(?:"([^"\\\r\n]*)"|(-?[0-9.]{1,24}|[A-Za-z]{1,12}))?\s*(?:,\s*(?:"|\})|\})')
_WORDS: Final = {"null": None, "none": None}


def mend(text: str) -> dict[str, object]:
    """The readable fields of a broken flat object, all of them strings.

    Refuses `bad_json` when the text is not even the outline of an object (cut off, say), and
    `ambiguous_json` when a field is there twice: then one of them may be somebody's overview.
    """
    trimmed = text.strip()
    if not (trimmed.startswith("{") and trimmed.endswith("}")):
        raise Refuse("bad_json", "the text is not valid JSON")
    fields: dict[str, object] = {}
    seen: set[str] = set()
    for key in _KEY.finditer(trimmed):
        name = key.group(1).lower()
        if name in seen:
            raise Refuse("ambiguous_json", "the text is not valid JSON and names a field twice")
        seen.add(name)
        value = _VALUE.match(trimmed, key.end())
        if value is None:
            continue
        quoted, bare = value.groups()
        if quoted is not None:
            fields[name] = quoted
        elif bare is not None:
            fields[name] = _WORDS.get(bare.lower(), bare)
    if "notificationtype" not in fields:
        raise Refuse("bad_json", "the text is not valid JSON")
    return fields

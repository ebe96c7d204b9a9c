"""Lenient typed readers over one JSON object: servers send numbers as text and absence as "".

Each reader returns None for absent, null and blank. What is there but can't be what it should be
raises Refuse where it matters (ids, positions) and counts as absent where it does not (display text,
flags). Nothing here echoes a value.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from typing import Final

from schemas.limits import ID_BYTES_MAX, TEXT_BYTES_MAX
from streams.domain.limits import INT64_MAX
from streams.ingest.hooks.checks import PROVIDER_IDS_MAX, Refuse
from streams.ingest.hooks.moments import parse_moment

_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")
_UNPRINTABLE = re.compile(r"[\x00\ud800-\udfff]")
_FLAGS: Final = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


class Fields:
    """A view on one object. `fold_case` for senders that don't keep the case of keys; never for Plex,
    whose guid and Guid differ. `unescape` for senders that HTML-encode values."""

    __slots__ = ("_fold_case", "_unescape", "_values")

    def __init__(self, value: object, *, fold_case: bool = False, unescape: bool = False) -> None:
        values: Mapping[str, object] = value if isinstance(value, dict) else {}
        self._values = {key.lower(): item for key, item in values.items()} if fold_case else values
        self._fold_case = fold_case
        self._unescape = unescape

    def __bool__(self) -> bool:
        return bool(self._values)

    def __contains__(self, name: str) -> bool:
        return self.raw(name) is not None

    def raw(self, name: str) -> object:
        """The value as it came, except that HTML entities of text are undone when asked for."""
        value = self._values.get(name.lower() if self._fold_case else name)
        return _unescaped(value) if self._unescape and isinstance(value, str) else value

    def child(self, name: str) -> Fields:
        """The object under a name; an empty one when there is none."""
        return Fields(self.raw(name), fold_case=self._fold_case, unescape=self._unescape)

    def children(self, name: str) -> list[Fields]:
        """The objects of a list under a name; one object alone counts as a list of it."""
        value = self.raw(name)
        items = value if isinstance(value, list) else [value]
        return [
            Fields(item, fold_case=self._fold_case, unescape=self._unescape) for item in items if isinstance(item, dict)
        ]

    def names(self) -> list[str]:
        """The names of all fields; in lower case when case is folded."""
        return list(self._values)

    def identifier(self, name: str) -> str | None:
        """An id: text or whole number. Refuses over 256 bytes, NUL, lone surrogates and other types."""
        value = self.raw(name)
        if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INT64_MAX:
            return str(value)
        if value is None:
            return None
        if not isinstance(value, str):
            raise Refuse("bad_id", f"{name} is not an id")
        return checked_id(name, value)

    def word(self, name: str) -> str | None:
        """A short text used to compare: an event's name, a state. Anything else counts as absent."""
        value = self.raw(name)
        if not isinstance(value, str) or len(value) > ID_BYTES_MAX or _UNPRINTABLE.search(value):
            return None
        return value.strip() or None

    def text(self, name: str) -> str | None:
        """Display text, cleaned of NUL and lone surrogates and cut at 1 KiB."""
        value = self.raw(name)
        return display(value) if isinstance(value, str) else None

    def flag(self, name: str) -> bool | None:
        """A truth value: true, "True", "false", 1, "0" …; None when it can't be read as one."""
        value = self.raw(name)
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            return {0: False, 1: True}.get(value)
        return _FLAGS.get(value.strip().lower()) if isinstance(value, str) else None

    def whole(self, name: str, reason: str) -> int | None:
        """A whole number, also as text or as an integral float; refuses with `reason` what is none."""
        number = self._number(name, reason)
        if number is None or isinstance(number, int):
            return number
        if not number.is_integer():
            raise Refuse(reason, f"{name} is not a whole number")
        return int(number)

    def milliseconds(self, name: str, reason: str, *, per_unit: float = 1) -> int | None:
        """A length of time in whole ms (rounded), given in units of `per_unit` ms."""
        number = self._number(name, reason)
        return None if number is None else _scaled(number, per_unit, name, reason)

    def ticks(self, name: str, reason: str) -> int | None:
        """A length of time given in ticks of 100 ns, as whole ms (rounded down)."""
        number = self._number(name, reason)
        return None if number is None else int(number // 10_000)

    def duration(self, name: str, *, per_unit: float = 1) -> int | None:
        """A positive length in whole ms, else None: an unreadable duration is merely unknown."""
        try:
            length = self.milliseconds(name, "bad_duration", per_unit=per_unit)
        except Refuse:
            return None
        return length if length is not None and 0 < length <= INT64_MAX else None

    def moment(self, name: str) -> int | None:
        """A time of an ISO text in epoch ms; None when it can't be read or means never (year 1)."""
        value = self.raw(name)
        return parse_moment(value) if isinstance(value, str) else None

    def _number(self, name: str, reason: str) -> int | float | None:
        value = self.raw(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        number: int | float
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise Refuse(reason, f"{name} is not a number")
        if isinstance(value, str):
            literal = value.strip()
            if not _NUMBER.fullmatch(literal):
                raise Refuse(reason, f"{name} is not a number")
            number = float(literal) if any(mark in literal for mark in ".eE") else int(literal)
        else:
            number = value
        if abs(number) > INT64_MAX:  # infinity is one of these
            raise Refuse(reason, f"{name} is out of range")
        return number


def _scaled(number: int | float, per_unit: float, name: str, reason: str) -> int:
    scaled = number * per_unit
    if abs(scaled) > INT64_MAX:
        raise Refuse(reason, f"{name} is out of range")
    return round(scaled)


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # a character reference of thousands of digits
        return text


def checked_id(name: str, value: str) -> str | None:
    """The id without surrounding blanks, None when nothing is left; refuses what no id may hold."""
    if _UNPRINTABLE.search(value):
        raise Refuse("invalid_text", f"{name} holds NUL or a lone surrogate")
    trimmed = value.strip()
    if len(trimmed) > ID_BYTES_MAX or len(trimmed.encode()) > ID_BYTES_MAX:
        raise Refuse("id_too_long", f"{name} is over {ID_BYTES_MAX} bytes")
    return trimmed or None


def display(value: str) -> str | None:
    """Text for people: NUL and lone surrogates replaced, cut at 1 KiB on a character's border."""
    cleaned = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", value[:TEXT_BYTES_MAX]).strip()
    return cleaned.encode()[:TEXT_BYTES_MAX].decode(errors="ignore") or None


def provider_ids(pairs: Mapping[str, object]) -> dict[str, str]:
    """Ids at other catalogues by lower-case provider name, at most 32; what is unusable is left out."""
    found: dict[str, str] = {}
    for provider, value in pairs.items():
        try:
            name = checked_id("provider", provider)
            identifier = Fields({"id": value}).identifier("id")
        except Refuse:
            continue
        if name is not None and identifier is not None and len(found) < PROVIDER_IDS_MAX:
            found[name.lower()] = identifier
    return found

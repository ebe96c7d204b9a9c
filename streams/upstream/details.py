"""Parts of ItemDetails from what files and servers state: bounded, and of the form the contract asks for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

import xxhash

from schemas.library import CollectionRef
from schemas.limits import ID_BYTES_MAX, TEXT_BYTES_MAX

LIST_MAX: Final = 16
"""Artists, provider ids and collections of one item."""
_INT32_MAX: Final = 2**31 - 1
_YEAR: Final = re.compile(r"\d{4}")
_LEADING: Final = re.compile(r"\s*(\d{1,9})")


def text(value: object, bytes_max: int = TEXT_BYTES_MAX) -> str | None:
    """A text for people: no NUL or lone surrogates, cut; None when nothing is left."""
    if not isinstance(value, str):
        return None
    clean = value.replace("\0", " ").encode("utf-8", "replace")[:bytes_max].decode("utf-8", "ignore").strip()
    return clean or None


def texts(values: Iterable[object]) -> tuple[str, ...]:
    """Each text once, at most 16."""
    return tuple(dict.fromkeys(one for one in map(text, values) if one is not None))[:LIST_MAX]


def identifier(value: object) -> str | None:
    """An id as it was stated, number or text; None when it is none or over 256 bytes: it is never cut."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value or "\0" in value:
        return None
    try:
        return value if len(value.encode()) <= ID_BYTES_MAX else None
    except UnicodeEncodeError:
        return None


def number_in(value: object) -> int | None:
    """The whole number a value is or begins with, from 0 on: 3 of "3/12"."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if 0 <= value <= _INT32_MAX else None
    found = _LEADING.match(value) if isinstance(value, str) else None
    return int(found[1]) if found else None


def whole(value: object) -> int | None:
    """A number from 1 on that fits 63 bits; fractions are cut."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value < 2**63:
        return None
    return int(value)


def year_in(value: object) -> int | None:
    """A year from 1000 to 2999 in a number or a date; tiny and odd ones are none."""
    found = _YEAR.search(str(value)) if isinstance(value, str | int) and not isinstance(value, bool) else None
    return int(found[0]) if found and 1000 <= int(found[0]) < 3000 else None


def collection(kind: str, key: str | bytes | Sequence[str] | None, name: str | bytes | None) -> CollectionRef | None:
    """A collection, None when it has no key or name. Parts of a key are joined so that no two keys meet; names that
    people type compare without case, in NFC; a key over 256 bytes, or that is no text, is hashed."""
    shown = text(name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else name)
    if not key or shown is None:
        return None
    if isinstance(key, bytes):
        try:
            made = key.decode()
        except UnicodeDecodeError:
            made = f"bytes:{xxhash.xxh3_128_hexdigest(key)}"
    elif isinstance(key, str):
        made = key if kind in ("folder", "series", "season") else _folded(key)
    else:
        made = "/".join(_folded(part).replace("%", "%25").replace("/", "%2F") for part in key)
    made = made.replace("\0", "%00")
    packed = made.encode("utf-8", "replace")
    if len(packed) > ID_BYTES_MAX:
        made = f"long:{xxhash.xxh3_128_hexdigest(packed)}"
    return CollectionRef(kind, packed.decode() if len(packed) <= ID_BYTES_MAX else made, shown)


def facts_hash(*facts: object) -> str:
    """What stands for the content of a server's item: a hash of all its facts together."""
    joined = "\0".join("\1" if fact is None else str(fact).replace("\0", " ") for fact in facts)
    return "facts:" + str(xxhash.xxh3_128_hexdigest(joined.encode("utf-8", "replace")))


def _folded(value: str) -> str:
    return unicodedata.normalize("NFC", value).casefold().strip()

"""Damage to payloads that knows their structure: JSON trees, forms and multipart bodies stay mostly readable.

Plain byte mutation seldom gets past the JSON parser; this changes values, names and shapes inside of it. Everything
follows from the random generator that is handed in.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from urllib.parse import parse_qsl, urlencode

BODY_MAX = 16 * 1024
_NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 10**400, 1.5, -0.0, 1e300, 1e-300, 946684800)
_TEXTS = (
    *("", " ", "0", "-5", "True", "false", "NaN", "1e400", "9" * 400, "0x1F", "1_000", "\u0661"),
    *("\x00", "\ud800", "\x1b[31m", "\u202e", "\U0001f600" * 100, "a" * 256, "a" * 257, "\u00e9" * 129, "x" * 2000),
    *("&#0;", "&#xD800;", "&#" + "9" * 5000 + ";", "&amp;lt;", '\\"', "line\nbreak"),
    *("2026-05-04T10:30:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.9999999+14:00", "2026-02-30T00:00:00Z"),
    "00000000-0000-0000-0000-000000000000",
)


def mutate(body: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """A damaged copy of a body; values of the others are pasted in now and then."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        body = rng.choice((_structure, _structure, _structure, _bytes))(body, others, rng)
    return body[:BODY_MAX]


def _structure(body: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start, end = body.find(b"{"), body.rfind(b"}")
    if start < 0 or end < start:
        return _form(body, others, rng) if b"=" in body else _bytes(body, others, rng)
    try:
        tree = json.loads(body[start : end + 1])
    except ValueError:
        return _bytes(body, others, rng)
    paste = [value for other in rng.sample(list(others), min(2, len(others))) for value in _values(other)]
    changed = _damage(tree, paste, rng)
    text = json.dumps(changed, ensure_ascii=rng.random() < 0.8)
    return body[:start] + text.encode(errors="surrogatepass") + body[end + 1 :]


def _damage(tree: object, paste: Sequence[object], rng: random.Random) -> object:
    """The tree with one place in it changed."""
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        name = rng.choice(list(tree))
        what = rng.random()
        if what < 0.1:
            return {key: value for key, value in tree.items() if key != name}
        if what < 0.2:
            return tree | {rng.choice((name.lower(), name.upper(), name + "x", "Id", "data", "")): tree[name]}
        return tree | {name: _damage(tree[name], paste, rng)}
    if isinstance(tree, list) and tree and rng.random() < 0.9:
        place = rng.randrange(len(tree))
        if rng.random() < 0.2:
            return [*tree, *tree[place : place + 1] * rng.choice((1, 3, 1001))]
        return [_damage(item, paste, rng) if number == place else item for number, item in enumerate(tree)]
    return _value(tree, paste, rng)


def _value(old: object, paste: Sequence[object], rng: random.Random) -> object:
    what = rng.random()
    if what < 0.25:
        return rng.choice(_NUMBERS)
    if what < 0.5:
        return rng.choice(_TEXTS)
    if what < 0.6:
        return rng.choice((None, True, False, [], {}, [old], {"id": old}))
    if what < 0.75 and paste:
        return rng.choice(paste)
    if isinstance(old, str):
        at = rng.randint(0, len(old))
        return rng.choice((old[:at], old[:at] + rng.choice(_TEXTS) + old[at:], old.swapcase(), f" {old} "))
    if isinstance(old, int | float):
        return rng.choice((-old, old * 1000, old // 1000, old + 1, str(old)))
    return rng.choice(_NUMBERS)


def _values(body: bytes) -> list[object]:
    """All values of a body's JSON, the root aside."""
    start, end = body.find(b"{"), body.rfind(b"}")
    try:
        layer = [json.loads(body[start : end + 1])]
    except ValueError:
        return []
    found: list[object] = []
    while layer:
        inner = [value for item in layer for value in (item.values() if isinstance(item, dict) else item)]
        found += inner
        layer = [value for value in inner if isinstance(value, dict | list)]
    return found


def _form(body: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    path, mark, query = body.partition(b"?") if b"?" in body else (b"", b"", body)
    try:
        pairs = parse_qsl(query.decode(errors="replace"), keep_blank_values=True, max_num_fields=20_000)
    except ValueError:
        return _bytes(body, others, rng)
    if not pairs:
        return _bytes(body, others, rng)
    place = rng.randrange(len(pairs))
    name, value = pairs[place]
    match rng.randrange(4):
        case 0:
            del pairs[place]
        case 1:
            pairs += [(name, value)] * rng.choice((1, 3, 1001))
        case 2:
            pairs[place] = (rng.choice((name.upper(), name + "x", "id", "")), value)
        case _:
            pairs[place] = (name, str(_value(value, [], rng))[:3000])
    return path + mark + urlencode([(key, text.encode(errors="replace")) for key, text in pairs]).encode()


def _bytes(body: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    if not body:
        return rng.choice(others) if others else rng.randbytes(8)
    at = rng.randrange(len(body))
    to = min(len(body), at + rng.choice((1, 4, 64)))
    match rng.randrange(5):
        case 0:
            return body[:at]
        case 1:
            return body[:at] + rng.randbytes(to - at) + body[to:]
        case 2:
            return body[:at] + body[to:]
        case 3:
            return body[:to] + body[at:to] + body[to:]
        case _:
            return (
                body[:at]
                + rng.choice((b'"', b"\\", b"{", b"}", b"\n", b"--", b"\x00", b"\xff", b"%FF", b"&"))
                + body[at:]
            )

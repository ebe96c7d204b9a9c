"""The compiled codecs against fastavro, over mutated records and wrong values: same bytes, same values, same refusals.

``python -m tests.schemas.codec_fuzz --count 200000 --seed 1`` runs it by hand; the tests run less of it. Prints what
was tried and ends with exit code 1 at the first difference.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any, assert_never

from fastavro import parse_schema, schemaless_writer

from schemas.codec.compiled import Coders, by_fastavro, load
from schemas.codec.events import PLAN as EVENTS
from schemas.codec.plan import Coded, Plan
from schemas.codec.shape import INT_MAX, LONG_MAX, Array, Nullable, Plain, Record, Shape, records_of
from schemas.errors import Undecodable
from schemas.golden import examples
from streams.agents.aliases.plan import PLAN as ALIASES
from streams.agents.forgotten.plan import PLAN as FORGOTTEN
from streams.agents.library_state.plan import PLAN as LIBRARY
from streams.agents.state.plan import PLAN as ROWS

PLANS = (EVENTS, ROWS, ALIASES, FORGOTTEN, LIBRARY)
_TEXTS = (
    *(("progress", "0123456789abcdef" * 2, "7", "Living room") * 4),
    "",
    "a",
    "progress",
    "0123456789abcdef" * 2,
    "é",
    "日本語",
    "\U0001f3ac" * 3,
    "\0",
    "x" * 256,
    "x" * 257,
    "\x7f",
)
_WHOLE = (0, 1, -1, 63, 64, -64, -65, 8191, 1 << 20, INT_MAX, -INT_MAX - 1, 1_700_000_000_000, LONG_MAX, -LONG_MAX - 1)
_BYTES = (0, 1, 2, 3, 4, 0x7E, 0x7F, 0x80, 0x81, 0xC0, 0xED, 0xFE, 0xFF)
WRONG: tuple[Any, ...] = (
    *(None, True, False, 0, -1, INT_MAX + 1, -INT_MAX - 2, LONG_MAX + 1, -LONG_MAX - 2, 1 << 70, 1.5, "", "text"),
    *(
        "\0",
        "a\0b",
        "\ud800",
        "x" * 256,
        "x" * 257,
        "é" * 129,
        "x" * 1025,
        b"",
        b"bytes",
        b"\0" * 5000,
        bytearray(b"x"),
    ),
    *((), [], ("a",), ["a", "b"], ("a", 1), (1, 2), (True,), ("x",) * 16, ("x",) * 17, {}, {"a": 1}, object(), (None,)),
)
"""Values that fields of some type do not take; each is tried in every field."""


class Difference(AssertionError):
    """The two codecs disagree."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pair:
    """One version of one record, by both codecs."""

    coded: Coded
    version: int
    compiled: Coders
    reference: Coders

    def decode(self, data: bytes, start: int = 0) -> str:
        """What became of ``data``, by both. Raises Difference."""
        key = (self.coded.name, self.version)
        ours = _outcome(lambda: self.compiled.decode[key](data, start))
        theirs = _outcome(lambda: self.reference.decode[key](data, start))
        if ours != theirs:
            raise Difference(f"{key}: {data.hex()} from {start} is {ours!r}, by fastavro {theirs!r}")
        if ours[0] == "value":
            # The encoders tell True from 1, equality does not.
            self.encode(ours[1])
        return str(ours[0])

    def encode(self, value: Any, prefix: bytes = b"\0prefix") -> str:
        """What became of ``value``, by both. Raises Difference."""
        name = self.coded.name
        ours = _outcome(lambda: self.compiled.encode[name](value, prefix))
        theirs = _outcome(lambda: self.reference.encode[name](value, prefix))
        if ours != theirs:
            raise Difference(f"{name}: {value!r} becomes {ours!r}, by fastavro {theirs!r}")
        return str(ours[0])


def pairs(folders: dict[str, Path] | None = None) -> list[Pair]:
    """Every version of every record we have. ``folders``: where the compiled module of a package lies."""
    made = []
    for plan in PLANS:
        compiled = load(plan, (folders or {}).get(plan.package))
        made += pairs_of(plan, compiled)
    return made


def pairs_of(plan: Plan, compiled: Coders) -> list[Pair]:
    reference = by_fastavro(plan)
    return [Pair(coded, version, compiled, reference) for coded in plan.coded for version in sorted(coded.writers)]


def run(tried: list[Pair], count: int, seed: int) -> Counter[str]:
    """Decode ``count`` mutated records with both codecs; how often which outcome. Raises Difference."""
    outcomes: Counter[str] = Counter()
    chance = random.Random(seed)
    corpora = [corpus(pair, chance) for pair in tried]
    for number in range(count):
        at = number % len(tried)
        outcomes[tried[at].decode(mutated(chance, corpora[at]))] += 1
    return outcomes


def corpus(pair: Pair, chance: random.Random) -> list[bytes]:
    """Bodies as they were written: the golden ones of this version, and some of random values."""
    key = (pair.coded.name, pair.version)
    schema = parse_schema(json.loads(pair.coded.writers[pair.version]), named_schemas={})
    golden = [example.body for example in examples() if (example.schema.event, example.schema.version) == key]
    found = [body for body in golden if len(body) < 2_000]
    while len(found) < 60:
        out = BytesIO()
        schemaless_writer(out, schema, datum_of(chance, pair.coded.shapes[pair.version]))
        found.append(out.getvalue())
    return found


def datum_of(chance: random.Random, shape: Record) -> Any:
    """A random record of any version, within the limits, as fastavro writes it."""
    classes = {record.name: dict for record in records_of(shape)}
    return _random(chance, classes, list, shape, nul=False)


def mutated(chance: random.Random, bodies: list[bytes]) -> bytes:
    """One of ``bodies`` with one to four changes."""
    body = bytearray(chance.choice(bodies))
    for _ in range(chance.choice((1, 1, 1, 1, 2, 4))):
        at = chance.randint(0, max(0, len(body) - 1))
        match chance.randrange(9):
            case 0 | 1 if body:
                body[at] ^= 1 << chance.randrange(8)
            case 2 if body:
                body[at] = chance.choice(_BYTES)
            case 3:
                del body[at:]
            case 4:
                del body[at : at + chance.randint(1, 9)]
            case 5:
                body[at:at] = chance.randbytes(chance.randint(1, 12))
            case 6:
                # A longer varint of the same value, or of one that no longer fits 64 bits.
                if body:
                    body[at] |= 0x80
                body[at + 1 : at + 1] = b"\x80" * chance.randint(0, 11) + bytes((chance.choice((0, 0, 0, 1, 2, 0x7F)),))
            case 7:
                other = chance.choice(bodies)
                begin = chance.randint(0, len(other))
                body[at:at] = other[begin : begin + chance.randint(0, 60)]
            case _:
                # The most negative number and other extremes, where a length or a count may be.
                body[at : at + 1] = chance.choice(
                    (
                        b"\xff" * 9 + b"\x01",
                        b"\xfe" + b"\xff" * 8 + b"\x01",
                        b"\xff\xff\xff\xff\x0f",
                        b"\x03\x02",
                        b"\x01",
                    )
                )
    return bytes(body)


def value_of(chance: random.Random, coded: Coded, shape: Shape, *, nul: bool = True) -> Any:
    """A random value of ``shape`` within the limits, but for texts when ``nul``."""
    return _random(chance, coded.classes, tuple, shape, nul=nul)


def _random(
    chance: random.Random, classes: Mapping[str, type[Any]], several: type[Any], shape: Shape, *, nul: bool
) -> Any:
    match shape:
        case Plain("string"):
            return chance.choice([text for text in _TEXTS if nul or ("\0" not in text and len(text) <= 256)])
        case Plain("bytes"):
            return chance.randbytes(chance.choice((0, 1, 5, 64, 300)))
        case Plain("boolean"):
            return chance.random() < 0.5
        case Plain("int"):
            return chance.choice([number for number in _WHOLE if abs(number) <= INT_MAX])
        case Plain():
            return chance.choice(_WHOLE)
        case Nullable():
            return None if chance.random() < 0.4 else _random(chance, classes, several, shape.inner, nul=nul)
        case Array():
            count = chance.choice((0, 0, 1, 2, 5, 16))
            return several(_random(chance, classes, several, shape.items, nul=nul) for _ in range(count))
        case Record():
            made = {field.name: _random(chance, classes, several, field.shape, nul=nul) for field in shape.fields}
            return classes[shape.name](**made)
        case _:
            assert_never(shape)


def wrong_values(chance: random.Random, pair: Pair) -> Iterator[Any]:
    """Values of the pair's record, each with one field, at any depth, replaced by something else."""
    base = value_of(chance, pair.coded, pair.coded.reader, nul=False)
    yield from _replaced(chance, pair.coded, pair.coded.reader, base)


def _replaced(chance: random.Random, coded: Coded, shape: Record, base: Any) -> Iterator[Any]:
    for field in shape.fields:
        others = list(WRONG)
        inner = field.shape
        several = isinstance(inner, Array)
        if isinstance(inner, Nullable | Array):
            inner = inner.inner if isinstance(inner, Nullable) else inner.items
        if isinstance(inner, Record):
            part = value_of(chance, coded, inner, nul=False)
            parts = [part, *_replaced(chance, coded, inner, part), *_misshapen(coded.classes[inner.name])]
            others += [(part,) for part in parts] if several else parts
            others += [value_of(chance, coded, coded.reader, nul=False), *(kind for kind in coded.classes.values())]
        for other in others:
            if isinstance(base, tuple):
                yield base._replace(**{field.name: other})  # type: ignore[attr-defined]
            else:
                yield dataclasses.replace(base, **{field.name: other})


def _misshapen(kind: type[Any]) -> Iterator[Any]:
    """Instances that were made behind the class's back."""
    if issubclass(kind, tuple):
        yield tuple.__new__(kind, ())
        yield tuple.__new__(kind, range(50))
    else:
        yield object.__new__(kind)


def _outcome(do: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "value", do()
    except Undecodable as exc:
        return type(exc).__name__, str(exc)
    except AttributeError:
        # An instance whose slots were never set.
        return "AttributeError", None


def main() -> int:
    parser = argparse.ArgumentParser(description="The compiled codecs against fastavro.")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", action="append", default=[], metavar="PACKAGE=PATH", help="where a module lies")
    options = parser.parse_args()
    folders = {package: Path(path) for package, _, path in (entry.partition("=") for entry in options.folder)}
    tried = pairs(folders)
    outcomes = run(tried, options.count, options.seed)
    chance = random.Random(options.seed)
    written = Counter(pair.encode(value) for pair in tried for value in wrong_values(chance, pair))
    print(f"seed {options.seed}: {options.count} mutated records {dict(outcomes)}, written {dict(written)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

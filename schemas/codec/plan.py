"""What codecs are made from: schemas, the classes their records become, and the limits values are held to.

A plan is all that the reference codec (fastavro) and the compiled one know, so both follow from the same. The
package that owns the classes owns the plan: nothing here imports what lies above ``schemas``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal

from schemas.codec.shape import Record, Unsupported, records_of, resolve, shape_of

Encode = Callable[[Any, bytes], bytes]
"""(value, prefix) → prefix and the Avro body of value. Raises InvalidValue."""

Decode = Callable[[bytes, int], Any]
"""(data, start) → the value in data[start:], all of it. Raises Truncated, TrailingBytes or InvalidValue."""

# What the compiled code follows from, beside the plan itself.
_GENERATOR = ("shape.py", "plan.py", "generate.py", "primitives.pyx")


@dataclass(frozen=True, slots=True)
class Limits:
    """No text with a NUL in it; UTF-8 bytes of the fields named in ``long_texts``, and of any other; items."""

    long_texts: frozenset[str]
    long_text_bytes_max: int
    text_bytes_max: int
    items_max: int

    def bytes_max(self, field: str) -> int:
        """The longest text ``field`` takes, in UTF-8 bytes."""
        return self.long_text_bytes_max if field in self.long_texts else self.text_bytes_max


@dataclass(frozen=True)
class Coded:
    """One record and all its versions. ``classes`` names a class for each record of version ``writes``, which is
    the one that is written and the one every other is read as."""

    name: str
    writers: Mapping[int, str]
    writes: int
    classes: Mapping[str, type[Any]]

    @cached_property
    def shapes(self) -> Mapping[int, Record]:
        """The shape of each version, checked: readable as the newest, which has the fields of the classes."""
        shapes = {version: shape_of(text) for version, text in self.writers.items()}
        for shape in shapes.values():
            resolve(shape, shapes[self.writes])
        for record in records_of(shapes[self.writes]):
            kind = self.classes.get(record.name)
            if kind is None:
                raise Unsupported(f"{self.name}: no class for {record.name}")
            names = tuple(field.name for field in record.fields)
            if fields_of(kind) != names:
                raise Unsupported(f"{self.name}: {kind.__qualname__} has not the fields of {record.name}")
        return shapes

    @property
    def reader(self) -> Record:
        return self.shapes[self.writes]


@dataclass(frozen=True)
class Plan:
    """The codecs of one package. ``package`` is where the compiled module lies."""

    package: str
    coded: tuple[Coded, ...]
    limits: Limits | None

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, hex, of everything the compiled module follows from."""
        digest = hashlib.sha256()
        for name in _GENERATOR:
            digest.update(files("schemas.codec").joinpath(name).read_bytes())
        limits = None if self.limits is None else dataclasses.asdict(self.limits)
        known = [
            (
                coded.name,
                coded.writes,
                sorted(coded.writers.items()),
                [(name, path_of(kind), kind_of(kind), fields_of(kind)) for name, kind in sorted(coded.classes.items())],
            )
            for coded in self.coded
        ]
        digest.update(json.dumps([self.package, known, limits], default=sorted).encode())
        return digest.hexdigest()


def kind_of(kind: type[Any]) -> Literal["slots", "tuple"]:
    """How instances of ``kind`` are made without its ``__init__``, and that this comes to the same.

    A frozen dataclass with slots (nothing but its fields, no ``__post_init__``), or a named tuple. Raises
    Unsupported for any other class.
    """
    if kind.__mro__ == (kind, tuple, object) and isinstance(getattr(kind, "_fields", None), tuple):
        return "tuple"
    if kind.__mro__ != (kind, object) or not dataclasses.is_dataclass(kind):
        raise Unsupported(f"{path_of(kind)} is neither a plain dataclass nor a named tuple")
    names = tuple(field.name for field in dataclasses.fields(kind))
    members = all(isinstance(kind.__dict__.get(name), types.MemberDescriptorType) for name in names)
    if kind.__dict__.get("__slots__") != names or not members:
        raise Unsupported(f"{path_of(kind)} is no dataclass with slots for its fields")
    if hasattr(kind, "__post_init__") or kind.__new__ is not object.__new__:
        raise Unsupported(f"{path_of(kind)} does more than hold its fields when it is made")
    if not all(field.init for field in dataclasses.fields(kind)):
        raise Unsupported(f"{path_of(kind)} has fields that it makes itself")
    return "slots"


def fields_of(kind: type[Any]) -> tuple[str, ...]:
    """The fields of a class, in its order. Raises Unsupported as ``kind_of`` does."""
    if kind_of(kind) == "tuple":
        return tuple(getattr(kind, "_fields"))  # noqa: B009 - type[Any] has none
    return tuple(field.name for field in dataclasses.fields(kind))


def path_of(kind: type[Any]) -> str:
    """``module:name``, from which the compiled module imports the class."""
    return f"{kind.__module__}:{kind.__qualname__}"

"""What the playback table holds: one version byte, then Avro in that version's schema.

Old versions stay readable: ``decode`` upgrades on read, ``encode`` writes the newest. The bytes of each version
are pinned by golden examples in the tests, because state outlives the build that wrote it. The codec follows from
the schemas and from the classes of streams/domain/state.py (plan.py); it is the compiled one where that was built.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from schemas.codec.compiled import Coders, Implementation, coders
from schemas.codec.plan import Decode, Encode
from schemas.errors import Undecodable
from streams.agents.state.plan import PLAN, ROW, VERSION
from streams.domain.state import State
from streams.runtime.errors import ConfigurationError

__all__ = ["VERSION", "DamagedRow", "UnknownStateVersion", "decode", "encode", "implementation", "plain", "readable"]

_PREFIX = bytes((VERSION,))


class UnknownStateVersion(ConfigurationError):
    """The row was written by a newer build. Going on would lose what it knows: upgrade this one."""

    @classmethod
    def of(cls, version: int, known: int) -> UnknownStateVersion:
        return cls(
            f"a table row of version {version}; this build knows up to {known}: a newer one has run on this state. "
            "Upgrade Playhead on this machine"
        )


class DamagedRow(ValueError):
    """These bytes are no row. Our own store is damaged, and only starting over from the changelog helps."""


def encode(state: State) -> bytes:
    """The row of ``state``. Raises InvalidValue (schemas.errors) when a field has not the type it is declared with."""
    return _encoder()(state, _PREFIX)


def decode(row: bytes) -> State:
    """The state in ``row``, of any version this build knows. Raises UnknownStateVersion for a newer one, and
    DamagedRow for what is no row at all."""
    decode_version = _decoders().get(row[:1])
    if decode_version is None:
        if not row:
            raise DamagedRow("a table row of no bytes")
        raise UnknownStateVersion.of(row[0], VERSION)
    try:
        state: State = decode_version(row, 1)
    except Undecodable as exc:
        raise DamagedRow(f"a damaged table row: {exc}") from exc
    return state


def readable(row: bytes) -> object:
    """``row`` as JSON values, every field of the state by its name. Raises as ``decode`` does."""
    return plain(decode(row))


def plain(value: Any) -> object:
    """``value``, of dataclasses, named tuples and plain values, without the first two."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names is None:
            return [plain(item) for item in value]
        return {name: plain(item) for name, item in zip(names, value, strict=True)}
    return value


def implementation() -> Implementation:
    """Which codec this process uses for rows."""
    return _coders().implementation


def _coders() -> Coders:
    return coders(PLAN)


@cache
def _encoder() -> Encode:
    return _coders().encode[ROW]


@cache
def _decoders() -> dict[bytes, Decode]:
    return {bytes((version,)): decode for (_, version), decode in _coders().decode.items()}

"""What the library table holds: a version byte, a byte that says which row it is, then Avro in that version's schema.

Old versions stay readable: ``decode`` upgrades on read, ``encode`` writes the newest. The bytes of each version are
pinned by golden examples in the tests. The codec is made as that of streams/agents/state.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from schemas.codec.compiled import Coders, Implementation, coders
from schemas.codec.plan import Decode, Encode
from schemas.errors import Undecodable
from streams.agents.library_state.plan import PLAN, TAGS, VERSION
from streams.agents.state import DamagedRow, UnknownStateVersion, plain
from streams.domain.library.rows import Row

__all__ = ["VERSION", "DamagedRow", "UnknownStateVersion", "decode", "encode", "implementation", "readable"]

_HEAD = 2


def encode(row: Row) -> bytes:
    """The bytes of ``row``. Raises InvalidValue (schemas.errors) when a field has not the type it is declared with."""
    encoder, head = _encoders()[type(row)]
    return encoder(row, head)


def decode(data: bytes) -> Row:
    """The row in ``data``, of any version this build knows. Raises UnknownStateVersion for a newer one, and
    DamagedRow for what is no row at all."""
    decoder = _decoders().get(data[:_HEAD])
    if decoder is None:
        if len(data) >= _HEAD and not 1 <= data[0] <= VERSION:
            raise UnknownStateVersion.of(data[0], VERSION)
        raise DamagedRow("a table row of no kind there is")
    try:
        row: Row = decoder(data, _HEAD)
    except Undecodable as exc:
        raise DamagedRow(f"a damaged table row: {exc}") from exc
    return row


def readable(data: bytes) -> object:
    """``data`` as JSON values, every field by its name, with the name of the row. Bytes are shown as text, what is
    not UTF-8 in them escaped. Raises as ``decode`` does."""
    row = decode(data)
    return {"row": type(row).__name__.lower(), **_shown(plain(row))}


def _shown(value: Any) -> Any:
    match value:
        case dict():
            return {name: _shown(item) for name, item in value.items()}
        case list():
            return [_shown(item) for item in value]
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case _:
            return value


def implementation() -> Implementation:
    """Which codec this process uses for rows."""
    return _coders().implementation


def _coders() -> Coders:
    return coders(PLAN)


@cache
def _encoders() -> dict[type[Any], tuple[Encode, bytes]]:
    made = _coders()
    return {kind: (made.encode[kind.__name__], bytes((VERSION, tag))) for kind, tag in TAGS.items()}


@cache
def _decoders() -> dict[bytes, Decode]:
    made = _coders()
    names = {kind.__name__: tag for kind, tag in TAGS.items()}
    return {bytes((version, names[name])): decode for (name, version), decode in made.decode.items()}

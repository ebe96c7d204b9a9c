"""Events to bytes and back, in Confluent's wire format: a zero byte, a 4-byte big-endian schema id, Avro.

Decoding trusts nothing: only pinned schemas, no bytes left over, every text and id within its limit.
"""

from __future__ import annotations

from schemas.codec.avro_codec import decode_body, encode_body
from schemas.errors import BadMagic, TooLarge, Truncated
from schemas.events import Event
from schemas.ids import SchemaIds
from schemas.topics import TOPICS

__all__ = ["WIRE_HEADER_BYTES", "Codec", "schema_id_of"]

WIRE_HEADER_BYTES = 5
_MAGIC = 0
_BYTES_MAX = {topic.holds: topic.bytes_max for topic in TOPICS}


def schema_id_of(data: bytes) -> int | None:
    """The schema id bytes claim to have, or None when they are not in the wire format."""
    if len(data) < WIRE_HEADER_BYTES or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:WIRE_HEADER_BYTES], "big")


class Codec:
    """Encodes with the newest schema of an event, decodes any pinned one to the newest dataclass."""

    def __init__(self, ids: SchemaIds) -> None:
        self._ids = ids

    def encode(self, event: Event) -> bytes:
        """The bytes of ``event``.

        Raises InvalidValue when a field breaks the contract's limits, TooLarge when the whole is larger than
        its topic takes.
        """
        kind = type(event).__name__
        data = b"\0" + self._ids.id_for(kind).to_bytes(4, "big") + encode_body(event)
        _hold_size(kind, data)
        return data

    def decode(self, data: bytes) -> Event:
        """The event in ``data``.

        Raises UnknownSchemaId when the id is not ours (nothing is said about the rest), and an Undecodable
        when the bytes cannot be an event. Never raises anything else, whatever the bytes.
        """
        if not data or data[0] != _MAGIC:
            raise BadMagic("the first byte is not 0: not in the wire format")
        if len(data) < WIRE_HEADER_BYTES:
            raise Truncated("ends inside the wire format's header")
        writer = self._ids.writer(int.from_bytes(data[1:WIRE_HEADER_BYTES], "big"))
        _hold_size(writer.event, data)
        return decode_body(writer, data, WIRE_HEADER_BYTES)


def _hold_size(event: str, data: bytes) -> None:
    limit = _BYTES_MAX[event]
    if len(data) > limit:
        raise TooLarge(f"{len(data)} bytes of {event}, {limit} are allowed")

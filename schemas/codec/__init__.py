"""Events to bytes and back, in Confluent's wire format: a zero byte, a 4-byte big-endian schema id, Avro.

Decoding trusts nothing: only pinned schemas, no bytes left over, every text and id within its limit.
"""

from __future__ import annotations

from schemas.codec.compiled import CodecUnavailable, Coders, Implementation, coders
from schemas.codec.events import PLAN
from schemas.codec.plan import Decode
from schemas.errors import BadMagic, TooLarge, Truncated
from schemas.events import Event
from schemas.ids import SchemaIds
from schemas.topics import TOPICS

__all__ = ["WIRE_HEADER_BYTES", "Codec", "CodecUnavailable", "Implementation", "implementation", "schema_id_of"]

WIRE_HEADER_BYTES = 5
_MAGIC = 0
_BYTES_MAX = {event: topic.bytes_max for topic in TOPICS for event in topic.holds}


def schema_id_of(data: bytes) -> int | None:
    """The schema id bytes claim to have, or None when they are not in the wire format."""
    if len(data) < WIRE_HEADER_BYTES or data[0] != _MAGIC:
        return None
    return int.from_bytes(data[1:WIRE_HEADER_BYTES], "big")


def implementation() -> Implementation:
    """Which codec this process uses for events unless told otherwise."""
    return coders(PLAN).implementation


class Codec:
    """Encodes with the newest schema of an event, decodes any pinned one to the newest dataclass.

    ``implementation`` asks for one of the two codecs; both read and write the same. By default it is the compiled
    one where that was built. Raises CodecUnavailable when what is asked for is not there.
    """

    def __init__(self, ids: SchemaIds, implementation: Implementation | None = None) -> None:
        self._ids = ids
        self._coders: Coders = coders(PLAN, implementation)
        # By wire header: what reads it, and how much of it there may be. An id never gets another meaning.
        self._readers: dict[bytes, tuple[Decode, str, int]] = {}
        self._headers: dict[int, bytes] = {}

    def encode(self, event: Event) -> bytes:
        """The bytes of ``event``.

        Raises InvalidValue when a field breaks the contract's limits, TooLarge when the whole is larger than
        its topic takes.
        """
        kind = type(event).__name__
        schema_id = self._ids.id_for(kind)
        header = self._headers.get(schema_id)
        if header is None:
            header = self._headers[schema_id] = b"\0" + schema_id.to_bytes(4, "big")
        data = self._coders.encode[kind](event, header)
        if len(data) > _BYTES_MAX[kind]:
            raise _too_large(kind, data)
        return data

    def decode(self, data: bytes) -> Event:
        """The event in ``data``.

        Raises UnknownSchemaId when the id is not ours (nothing is said about the rest), and an Undecodable
        when the bytes cannot be an event. Never raises anything else, whatever the bytes.
        """
        decode, kind, limit = self._readers.get(data[:WIRE_HEADER_BYTES]) or self._reader(data)
        if len(data) > limit:
            raise _too_large(kind, data)
        event: Event = decode(data, WIRE_HEADER_BYTES)
        return event

    def _reader(self, data: bytes) -> tuple[Decode, str, int]:
        """What reads records that begin as ``data`` does."""
        if not data or data[0] != _MAGIC:
            raise BadMagic("the first byte is not 0: not in the wire format")
        if len(data) < WIRE_HEADER_BYTES:
            raise Truncated("ends inside the wire format's header")
        header = data[:WIRE_HEADER_BYTES]
        writer = self._ids.writer(int.from_bytes(header[1:], "big"))
        found = self._coders.decode[writer.event, writer.version], writer.event, _BYTES_MAX[writer.event]
        self._readers[header] = found
        return found


def _too_large(event: str, data: bytes) -> TooLarge:
    return TooLarge(f"{len(data)} bytes of {event}, {_BYTES_MAX[event]} are allowed")

"""Everybody who reads event bytes, as callables: each is fed every golden example and every piece of garbage.

To add a consumer, append to CONSUMERS. ``feed(data)`` does what the consumer does with one record's value and
answers None when it was taken, or the cause class of the dead letter it became. It must raise nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schemas.codec import Codec
from schemas.errors import ContractError
from schemas.events import EVENTS
from schemas.ids import SchemaIds
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent

Feed = Callable[[bytes], str | None]


@dataclass(frozen=True)
class Consumer:
    """``takes``: the events it is there for; of any other it must make a dead letter."""

    name: str
    feed: Feed
    takes: frozenset[str]


def _codec() -> Feed:
    codec = Codec(SchemaIds())

    def feed(data: bytes) -> str | None:
        try:
            codec.decode(data)
        except ContractError as exc:
            return exc.cause
        return None

    return feed


def _contract() -> Feed:
    contract = Contract(SchemaIds(), registry=None)

    def feed(data: bytes) -> str | None:
        try:
            contract.decode(data)
        except Permanent as exc:
            return exc.cause
        return None

    return feed


CONSUMERS: tuple[Consumer, ...] = (
    Consumer("codec", _codec(), frozenset(EVENTS)),
    Consumer("contract", _contract(), frozenset(EVENTS)),
)

"""What can be wrong with bytes that claim to be an event.

ContractError
 ├─ Undecodable            the bytes are poison: a dead letter, whoever reads them
 │   ├─ BadMagic           not the Confluent wire format
 │   ├─ Truncated          ends inside a value
 │   ├─ TrailingBytes      goes on after the value
 │   ├─ InvalidValue       decodes, but a value breaks the contract's limits
 │   └─ TooLarge           over the topic's size limit
 └─ UnknownSchemaId        the id is not among ours: the reader asks the registry what that means
"""

from __future__ import annotations


class ContractError(Exception):
    """Base of everything wrong with an event's bytes. ``cause`` is the dead letter's cause class."""

    cause = "contract"


class Undecodable(ContractError):
    """These bytes will never decode with any build that keeps the contract."""

    cause = "undecodable"


class BadMagic(Undecodable):
    cause = "bad_magic"


class Truncated(Undecodable):
    cause = "truncated"


class TrailingBytes(Undecodable):
    cause = "trailing_bytes"


class InvalidValue(Undecodable):
    cause = "invalid_value"


class TooLarge(Undecodable):
    cause = "too_large"


class UnknownSchemaId(ContractError):
    """``schema_id`` is not known to this build; only the registry can say whether anybody knows it."""

    cause = "unknown_schema"

    def __init__(self, schema_id: int) -> None:
        super().__init__(f"schema id {schema_id} is not known to this build")
        self.schema_id = schema_id

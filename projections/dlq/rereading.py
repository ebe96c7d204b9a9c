"""A record that a projection could not apply, folded at its own position, in one transaction with the letter's mark."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Message

from projections import outbox
from projections.base import Connection, Projection
from projections.decoding import Decoder
from projections.dlq.desk import Letter, Status
from projections.offsets import Position
from streams.runtime.clock import Clock
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent

_STANDS = """
SELECT topic_id, log_epoch, next_offset FROM model.offsets
WHERE projection = %s AND topic = %s AND partition = %s FOR NO KEY UPDATE"""


class NotNow(Permanent):
    """This letter is not for rereading as things are; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, cause="other")


def reread(
    projection: Projection[Any], letter: Letter, message: Message, contract: Contract, clock: Clock, tx: Connection
) -> None:
    """Fold the record of ``letter`` with its own version, in ``tx``. Nothing older wins by it, and as versions do not
    tell that rows changed, everything that was read before is void.

    The offsets row is locked: the projection's owner waits, and no other fold is between ours and its own. Raises
    Permanent when the record still can't be applied, or is not the letter's any more.
    """
    partition = letter.topic_partition
    row = tx.execute(_STANDS.encode(), (projection.name, projection.topic.name, partition)).fetchone()
    if row is None or row[0] != letter.topic_id:
        raise NotNow("the log it lay in is not the one that is read now")
    if letter.topic_offset >= row[2]:
        raise NotNow("the projection has not passed it: it reads the record again by itself")
    position = Position(partition, row[0], None, row[1], row[2])
    decoded = Decoder(projection, contract, clock).decode([message], {partition: position})
    for poison in decoded.poison:
        raise poison.error
    for record in decoded.records:
        if letter.status == Status.REDRIVEN:
            # It was folded then, and is a record read twice.
            projection.fold([record], tx)
        else:
            projection.fold_late(record, tx)
        if projection.tables:
            outbox.void(tx, "redrive", record.event.correlation_id)

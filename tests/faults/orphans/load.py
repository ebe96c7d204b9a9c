"""Transactional producers as the engine uses librdkafka: one id per partition, outputs and offset in one transaction.

    python -m tests.faults.orphans.load BOOTSTRAP GROUP SOURCE OUT PARTITIONS RECORDS

Batch n of a partition is the numbers n * RECORDS … in its output and the offset n + 1: whatever happens to a
transaction, the batch is repeated until the offset says that it is committed. Killed to end it.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.engine import Crash, EngineConfig, SourcePosition
from streams.engine.batch import RawOutput
from streams.engine.errors import Aborted
from streams.engine.transaction import Transactions

PAUSE_S = 0.005


def work(config: EngineConfig, source: str, out: str, partition: int, records: int) -> None:
    """For ever: take the id, ask where the group is, commit batch after batch; after a crash from the start."""
    asker = Consumer({"bootstrap.servers": config.bootstrap, "group.id": config.group, "log_level": 0})
    group = asker.consumer_group_metadata()
    while True:
        transactions = Transactions(config, partition)
        try:
            transactions.fence()
            [place] = asker.committed([TopicPartition(source, partition)], 20)
            batch = max(0, place.offset)
            while True:
                outputs: list[RawOutput] = [
                    (out, (batch * records + i).to_bytes(8, "big"), None, partition, None, None, 0,
                     [SourcePosition(source, "-", partition, batch, i).header()])
                    for i in range(records)
                ]  # fmt: skip
                try:
                    transactions.commit(outputs, {}, [TopicPartition(source, partition, batch + 1)], group)
                    batch += 1
                    time.sleep(PAUSE_S)
                except Aborted as error:
                    print(f"{partition}: again: {error}", flush=True)
        except (Crash, KafkaException, SystemError) as error:  # as the engine: whatever it is, begin again
            print(f"{partition}: begins again: {error}", flush=True)
        finally:
            transactions.close()


if __name__ == "__main__":
    bootstrap, group, source, out, partitions, records = sys.argv[1:]
    settings = EngineConfig(
        bootstrap=bootstrap, group=group, state_dir=Path(), operation_timeout=20.0, client={"log_level": 0}
    )
    for number in range(int(partitions)):
        threading.Thread(target=work, args=(settings, source, out, number, int(records))).start()

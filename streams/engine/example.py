"""Count words, exactly once: a whole app in one page. Needs a Kafka at BOOTSTRAP.

    python -m streams.engine.example 127.0.0.1:9092 feed     # create topics, write some lines
    python -m streams.engine.example 127.0.0.1:9092 count    # the worker; stop with Ctrl-C, kill it, start two
    python -m streams.engine.example 127.0.0.1:9092 show     # the counts, read committed

However often the worker is killed, the counts come out the same.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from streams.engine import (
    App,
    EngineConfig,
    Output,
    PermanentError,
    SourcePosition,
    changelog_topics,
    ensure_changelogs,
)

PARTITIONS = 4
LINES = ["the cat sat on the mat", "the dog did not", "a cat is not a dog"]


@dataclass(frozen=True)
class Names:
    """The example's group and topics."""

    group: str

    @property
    def words(self) -> str:
        return f"{self.group}.words"

    @property
    def counts(self) -> str:
        return f"{self.group}.counts"

    @property
    def dead(self) -> str:
        return f"{self.group}.dead"


@dataclass(frozen=True)
class DeadLetters:
    """The engine's dead letter port: what a letter looks like is the program's business."""

    topic: str

    def make(self, record: Message, error: Exception, attempt: int, position: SourcePosition) -> Output:
        headers = (("error", str(error).encode()), ("attempt", b"%d" % attempt))
        return Output(self.topic, record.value(), record.key() or str(position).encode(), headers=headers)


def make_app(bootstrap: str, names: Names, state_dir: Path) -> App:
    """Declare a table and an agent. Nothing connects here."""
    letters = DeadLetters(names.dead)
    app = App(EngineConfig(bootstrap=bootstrap, group=names.group, state_dir=state_dir, dead_letter=letters))
    counts = app.Table("counts")

    @app.agent(app.source(names.words), outputs=[names.counts])
    async def count(stream):  # type: ignore[no-untyped-def]
        async for batch in stream:  # coming back here commits the batch before
            for record in batch.records:
                with batch.guard(record):  # a PermanentError costs this record only
                    word = record.key()
                    if not word:
                        raise PermanentError("a word needs a key")
                    total = int(counts.get(word) or b"0") + 1
                    counts[word] = b"%d" % total
                    batch.send(names.counts, b"%d" % total, key=word, partition=batch.partition)

    return app


def feed(bootstrap: str, names: Names, app: App) -> None:
    """Create the topics and write the lines, word by word."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, PARTITIONS, 1) for name in (names.words, names.counts, names.dead)]
    for future in admin.create_topics(topics).values():
        error = future.exception(30)
        if error is not None and error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise error
    ensure_changelogs(app.config, changelog_topics(app), partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for word in " ".join(LINES).split():
        producer.produce(names.words, b"1", word.encode())
    producer.flush(30)


def show(bootstrap: str, names: Names) -> dict[str, int]:
    """Return the last count of each word."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{names.group}-show",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(names.counts, p, 0) for p in range(PARTITIONS)])
    counts: dict[str, int] = {}
    ended = 0
    while ended < PARTITIONS:  # every partition says when its end is reached
        for message in consumer.consume(100, 1.0):
            error, key, value = message.error(), message.key(), message.value()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                ended += 1
            elif key is not None and value is not None:
                counts[key.decode()] = int(value)
    consumer.close()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("what", choices=["feed", "count", "show"])
    parser.add_argument("--state", type=Path, default=Path(tempfile.gettempdir()) / "engine-example")
    parser.add_argument("--group", default="example", help="also the prefix of the topics")
    arguments = parser.parse_args()
    names = Names(arguments.group)
    app = make_app(arguments.bootstrap, names, arguments.state)
    if arguments.what == "feed":
        feed(arguments.bootstrap, names, app)
    elif arguments.what == "count":
        app.run(loglevel="INFO")
    else:
        print(show(arguments.bootstrap, names))  # noqa: T201


if __name__ == "__main__":
    main()

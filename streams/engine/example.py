"""Count words, exactly once: a whole app in one page. Needs a Kafka at BOOTSTRAP.

    python -m streams.engine.example 127.0.0.1:9092 feed     # create topics, write some lines
    python -m streams.engine.example 127.0.0.1:9092 count    # the worker; stop with Ctrl-C, kill it, start two
    python -m streams.engine.example 127.0.0.1:9092 show     # the counts, read committed

However often the worker is killed, the counts come out the same.
"""

from __future__ import annotations

import argparse
import tempfile
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

WORDS, COUNTS, DEAD, PARTITIONS = "example.words", "example.counts", "example.dead", 4
LINES = ["the cat sat on the mat", "the dog did not", "a cat is not a dog"]


class DeadLetters:
    """The engine's dead letter port: what a letter looks like is the program's business."""

    def make(self, record: Message, error: Exception, attempt: int, position: SourcePosition) -> Output:
        headers = (("error", str(error).encode()), ("attempt", b"%d" % attempt))
        return Output(DEAD, record.value(), record.key() or str(position).encode(), headers=headers)


def make_app(bootstrap: str, state_dir: Path) -> App:
    """Declare a table and an agent. Nothing connects here."""
    app = App(
        EngineConfig(bootstrap=bootstrap, group="example", state_dir=state_dir, dead_letter=DeadLetters())
    )
    counts = app.Table("counts")

    @app.agent(app.source(WORDS), outputs=[COUNTS])
    async def count(stream):  # type: ignore[no-untyped-def]
        async for batch in stream:  # coming back here commits the batch before
            for record in batch.records:
                with batch.guard(record):  # a PermanentError costs this record only
                    word = record.key()
                    if not word:
                        raise PermanentError("a word needs a key")
                    total = int(counts.get(word) or b"0") + 1
                    counts[word] = b"%d" % total
                    batch.send(COUNTS, b"%d" % total, key=word, partition=batch.partition)

    return app


def feed(bootstrap: str, app: App) -> None:
    """Create the topics and write the lines, word by word."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(name, PARTITIONS, 1) for name in (WORDS, COUNTS, DEAD)]
    for future in admin.create_topics(topics).values():
        error = future.exception(30)
        if error is not None and error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise error
    ensure_changelogs(app.config, changelog_topics(app), partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for word in " ".join(LINES).split():
        producer.produce(WORDS, b"1", word.encode())
    producer.flush(30)


def show(bootstrap: str) -> dict[str, int]:
    """Return the last count of each word."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "example-show", "enable.partition.eof": True})
    consumer.assign([TopicPartition(COUNTS, p, 0) for p in range(PARTITIONS)])
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
    arguments = parser.parse_args()
    app = make_app(arguments.bootstrap, arguments.state)
    if arguments.what == "feed":
        feed(arguments.bootstrap, app)
    elif arguments.what == "count":
        app.run(loglevel="INFO")
    else:
        print(show(arguments.bootstrap))  # noqa: T201


if __name__ == "__main__":
    main()

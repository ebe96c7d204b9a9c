"""The topics of an app: which it needs, whether they fit each other, and who creates its changelogs.

The engine itself never creates a topic. :func:`ensure_changelogs` is for the program around it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from .config import EngineConfig
from .errors import Refused
from .logs import TopicFacts

#: Only compaction: a changelog that also deletes by age or size loses its head, and with it the
#: state; and the broker refuses to delete records from a topic that only compacts.
CHANGELOG_CONFIG = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class Needed:
    """Topic names by role. ``outputs`` are those the agents declared; a source may be among them. ``everywhere``: the
    outputs of which a unit writes every partition."""

    sources: tuple[str, ...]
    changelogs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    everywhere: tuple[str, ...] = ()

    def all(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.sources, *self.changelogs, *self.outputs)))

    def written(self, partition: int, partitions: int) -> set[tuple[str, int]]:
        """Where the unit of ``partition`` may have written, as far as was declared: topic and partition."""
        own = {(topic, partition) for topic in (*self.changelogs, *self.outputs)}
        return own | {(topic, each) for topic in self.everywhere for each in range(partitions)}


def check_topics(
    needed: Needed,
    facts: Mapping[str, TopicFacts],
    settings: Mapping[str, Mapping[str, str]],
    config: EngineConfig,
) -> int:
    """Return the common partition count. Raises Refused, naming every problem and what to do.

    ``settings``: those of what is written to, as far as they are known.
    """
    if missing := sorted(set(needed.all()) - facts.keys()):
        raise Refused(
            f"missing topics: {', '.join(missing)}. The engine creates none: create them "
            "(ensure_changelogs() does it for changelogs) and start again."
        )
    counts = {name: facts[name].partitions for name in needed.all()}
    partitions = facts[needed.sources[0]].partitions
    if uneven := {name: count for name, count in counts.items() if count != partitions}:
        raise Refused(
            f"{needed.sources[0]} has {partitions} partitions, but "
            + ", ".join(f"{name} has {count}" for name, count in sorted(uneven.items()))
            + ". Sources, changelogs and declared outputs need the same count. If one was grown, keys "
            "have moved: replay into new topics under a new group."
        )
    for name in needed.changelogs:
        policy = settings.get(name, {}).get("cleanup.policy", "compact")
        if policy != "compact":
            raise Refused(
                f"{name} has cleanup.policy={policy}: its head could be deleted and with it the state. "
                "Set it to compact."
            )
        kept = settings.get(name, {}).get("delete.retention.ms")
        if kept is not None and float(kept) / 1000 < config.state_max_age:
            raise Refused(
                f"{name} keeps tombstones for {float(kept) / 3_600_000:.1f} h, less than state_max_age: an "
                "old local copy would miss deletions. Raise delete.retention.ms or lower state_max_age."
            )
    for name in (*needed.changelogs, *needed.outputs):
        allowed = settings.get(name, {}).get("max.message.bytes")
        if allowed is not None and int(allowed) < config.batch_bytes:
            raise Refused(
                f"{name} has max.message.bytes={allowed}, less than EngineConfig.batch_bytes ({config.batch_bytes}): "
                "full batches of records would be refused. Raise it or lower batch_bytes."
            )
    return partitions


def check_unchanged(needed: Needed, before: Mapping[str, TopicFacts], now: Mapping[str, TopicFacts]) -> None:
    """Raises Refused when a topic is not the one that was checked at the start."""
    changed = sorted(name for name in needed.all() if now.get(name) != before[name])
    if changed:
        raise Refused(
            f"topics changed while running: {', '.join(changed)} (deleted, recreated or repartitioned). "
            "Start again; if the state no longer belongs to them, the start will say so."
        )


def ensure_changelogs(
    config: EngineConfig,
    changelogs: Iterable[str],
    *,
    partitions: int,
    replication: int = 1,
    settings: Mapping[str, str] = CHANGELOG_CONFIG,
) -> list[str]:
    """Create the changelogs that do not exist yet and return their names.

    ``changelogs`` come from :func:`streams.engine.app.changelog_topics`; ``partitions`` is the count of the
    source topics. Existing topics are left as they are. They are usable when it
    returns. Raises KafkaException when the broker refuses.
    """
    admin = AdminClient(dict(config.common()))
    topics = [
        NewTopic(name, num_partitions=partitions, replication_factor=replication, config=dict(settings))
        for name in changelogs
    ]
    created: list[str] = []
    if not topics:
        return created
    for name, future in admin.create_topics(topics).items():
        try:
            future.result(30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        else:
            created.append(name)
    deadline = time.monotonic() + 30
    while not set(created) <= admin.list_topics(timeout=30).topics.keys():
        if time.monotonic() > deadline:
            raise Refused(f"created, but not visible after 30 s: {created}")
        time.sleep(0.05)
    return created

"""Source marks in changelogs of tables that the app does not declare.

They are in the changelog of the first table, so they stay behind in it when that table is removed, when the build that
added it is rolled back, or when an app without tables gets its first one: no replay would find them, and the group's
offset would contradict what it finds. So before that is said, every changelog of the group is asked. Each topic is
named as a changelog of this group may be, and each mark names the tables of its app with their topic ids: one that
does not name the topic it lies in is of another group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .changelog import SourceMark, changelog_name, newest_marks, source_of, table_of
from .config import EngineConfig
from .logs import Logs, TopicFacts
from .reading import key_of, read
from .topics import Needed


class FormerMarks:
    """Looks for them when asked, among the topics there were at the first question."""

    def __init__(self, config: EngineConfig, logs: Logs, needed: Needed) -> None:
        self._config = config
        self._logs = logs
        self._needed = needed
        self._topics: Mapping[str, TopicFacts] | None = None

    def of(self, partition: int) -> dict[str, SourceMark]:
        """Return the newest of a partition, by source topic. Raises Crash when brokers do not answer."""
        found: dict[str, SourceMark] = {}
        for topic, facts in self._changelogs().items():
            if partition < facts.partitions:
                for source, mark in self._marks(topic, partition, facts):
                    found = newest_marks(found, {source: mark})
        return found

    def _changelogs(self) -> Mapping[str, TopicFacts]:
        if self._topics is None:
            group = self._config.group
            named = {name for name in self._logs.names() if name == changelog_name(group, table_of(group, name))}
            self._topics = self._logs.describe(named - set(self._needed.changelogs))
        return self._topics

    def _marks(self, topic: str, partition: int, facts: TopicFacts) -> Iterator[tuple[str, SourceMark]]:
        place = (topic, partition)
        there = self._logs.ranges([place], {topic: facts})[place]
        itself = (table_of(self._config.group, topic), facts.topic_id)
        for record in read(self._config, topic, partition, there.start, there.stable):
            source, value = source_of(key_of(record)), record.value()
            if source is not None and value is not None:
                mark = SourceMark.decode(value)
                if itself in mark.changelogs:
                    yield source, mark

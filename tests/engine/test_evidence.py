"""What records say of the transaction that they are part of, and which of them are looked at for what hangs."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message

from streams.engine import SourcePosition, evidence
from streams.engine.changelog import SourceMark, changelog_name, source_key, table_of
from streams.engine.evidence import Claim, claim_of, offset_claim_of
from streams.engine.findings import Findings, Hanging, Pending, Role
from streams.engine.hanging import OFFSETS_TOPIC, offsets_partition
from streams.engine.logs import TopicFacts
from streams.engine.resume import LogRange
from streams.engine.topics import Needed
from streams.engine.verdict import verb
from streams.engine.wire import Open, Partition

from .fakes import GROUP, config

POSITION_HEADER = [SourcePosition("source", "id", 3, 41, 7).header()]


def message(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, str | bytes | None]] | None = None
) -> Message:
    return Message(topic="t", partition=3, offset=0, key=key, value=value, headers=headers)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


OFFSET_KEY = struct.pack(">h", 1) + text("group") + text("source") + struct.pack(">i", 3)
OFFSET = struct.pack(">hqi", 3, 42, -1) + text("") + struct.pack(">q", 0)


def test_given_a_record_with_a_position_then_it_says_how_far_its_source_is_processed() -> None:
    assert claim_of(message(b"k", b"v", [*POSITION_HEADER])) == Claim(("source", 3), 42)


def test_given_a_mark_of_before_changelogs_had_positions_then_it_says_so_as_well() -> None:
    mark = SourceMark("id", 42, 4, (("table", "another"),))
    assert claim_of(message(source_key("source"), mark.encode())) == Claim(("source", 3), 42)


@pytest.mark.parametrize(
    "record",
    [
        message(b"k", b"v"),
        message(None, b"v"),
        message(source_key("source"), None),
        message(source_key("source"), b"no mark"),
        message(b"k", b"v", [("source-position", b"nonsense")]),
    ],
)
def test_given_a_record_of_somebody_else_then_it_says_nothing(record: Message) -> None:
    assert claim_of(record) is None


def test_given_a_groups_offset_as_brokers_keep_it_then_it_is_read() -> None:
    assert offset_claim_of(message(OFFSET_KEY, OFFSET)) == Claim(("source", 3), 42, "group")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (struct.pack(">h", 2) + text("group"), b"members"),
        (OFFSET_KEY, None),
        (None, OFFSET),
        (OFFSET_KEY[:9], OFFSET),
        (OFFSET_KEY, OFFSET[:5]),
        (b"\0", OFFSET),
    ],
)
def test_given_another_record_of_that_topic_then_it_is_no_offset(key: bytes | None, value: bytes | None) -> None:
    assert offset_claim_of(message(key, value)) is None


def test_given_a_changelog_then_its_table_is_known() -> None:
    assert table_of("a-group", changelog_name("a-group", "a-table")) == "a-table"


class Brokers:
    """Stands in for brokers: partitions as lists of records, the first ``decided`` of each are committed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, offsets: dict[Partition, int] | None = None) -> None:
        self.offsets = offsets or {}
        self.records: dict[Partition, list[Message]] = {}
        self.decided: dict[Partition, int] = {}
        self.asked: list[Partition] = []
        self.reads: list[tuple[Partition, int, int]] = []
        monkeypatch.setattr(evidence, "Logs", lambda _: self)
        monkeypatch.setattr(evidence, "read", self._read)

    def add(self, place: Partition, *records: Message, hangs: bool = False) -> int:
        """Append; return the offset of the first of ``records``."""
        log = self.records.setdefault(place, [])
        start = len(log)
        log += records
        if not hangs:
            self.decided[place] = len(log)
        return start

    def describe(self, topics: Iterable[str]) -> dict[str, TopicFacts]:
        return {topic: TopicFacts(f"id-of-{topic}", 2) for topic in topics}

    def ranges(self, places: Iterable[Partition], facts: object) -> dict[Partition, LogRange]:
        return {
            place: LogRange("id", 0, len(self.records.get(place, ())), self.decided.get(place, 0)) for place in places
        }

    def since(self, places: Iterable[Partition], timestamp: int) -> dict[Partition, int | None]:
        return {place: 0 if place in self.records else None for place in places}

    def committed(self, sources: Iterable[Partition]) -> dict[Partition, int | None]:
        self.asked = list(sources)
        return {source: self.offsets.get(source) for source in self.asked}

    def _read(
        self, _: object, topic: str, partition: int, start: int, end: int, *, undecided: bool = False
    ) -> Iterator[Message]:
        place = topic, partition
        self.reads.append((place, start, end))
        last = end if undecided else min(end, self.decided.get(place, 0))
        for offset, record in enumerate(self.records.get(place, [])[start:last], start):
            yield Message(
                topic=topic, partition=partition, offset=offset, key=record.key(), value=record.value(),
                headers=record.headers(),
            )  # fmt: skip


NEEDED = Needed((), tuple(changelog_name(GROUP, table) for table in ("a", "b")), ("out",))
MARKS, ROWS = ((topic, 0) for topic in NEEDED.changelogs)
OUT, ELSEWHERE = ("out", 0), ("out", 1)
OFFSETS = (OFFSETS_TOPIC, offsets_partition(GROUP, 2))
SOURCE = ("source", 0)


def caused(offset: int, topic: str = "source") -> Message:
    """A record caused by this source offset."""
    return message(b"k", b"v", [SourcePosition(topic, "id", 0, offset, 0).header()])


def group_offset(offset: int, group: str = GROUP) -> Message:
    key = struct.pack(">h", 1) + text(group) + text("source") + struct.pack(">i", 0)
    return message(key, struct.pack(">hq", 3, offset))


def hangs(place: Partition, start: int, *, name: str | None = f"{GROUP}-0", producer: int = 7) -> Hanging:
    roles: dict[str, Role] = {"out": "output", OFFSETS_TOPIC: "offsets"}
    return Hanging(roles.get(place[0], "changelog"), Open(*place, producer, 1, 0, start, 0), name)


def verdicts(tmp_path: Path, *hanging: Hanging, pending: tuple[Pending, ...] = ()) -> list[str]:
    found = evidence.weigh(config(tmp_path), NEEDED, Findings(hanging, pending))
    return [verb(item.verdict) for item in found.hanging]


def test_given_a_changelog_without_marks_that_hangs_alone_then_its_position_says_that_it_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch, {SOURCE: 42})
    brokers.add(MARKS, caused(41))
    start = brokers.add(ROWS, message(b"k", b"v"), caused(41), hangs=True)
    assert verdicts(tmp_path, hangs(ROWS, start)) == ["commit"]


def test_given_a_part_of_before_changelogs_had_positions_then_another_of_its_producer_says_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch, {SOURCE: 40})
    brokers.add(MARKS, caused(41))
    rows = brokers.add(ROWS, message(b"k", b"v"), hangs=True)
    offsets = brokers.add(OFFSETS, group_offset(42), hangs=True)
    parts = hangs(ROWS, rows), hangs(OFFSETS, offsets)
    assert verdicts(tmp_path, *parts) == ["commit", "commit"]
    assert verdicts(tmp_path, parts[0]) == ["leave"]
    assert verdicts(tmp_path, parts[0], hangs(OFFSETS, offsets, producer=8)) == ["leave", "commit"]


def test_given_an_old_answer_for_the_groups_offset_then_the_mark_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch, {SOURCE: 5})
    brokers.add(MARKS, caused(41))
    start = brokers.add(OUT, caused(40), hangs=True)
    assert verdicts(tmp_path, hangs(OUT, start)) == ["commit"]
    # Seen by what is visible even where marks and offsets hang, but never by what was visible before.
    marks = brokers.add(MARKS, caused(49), hangs=True)
    brokers.add(ELSEWHERE, caused(41))
    later = brokers.add(OUT, caused(45), hangs=True)
    parts = hangs(OUT, later), hangs(MARKS, marks)
    assert verdicts(tmp_path, *parts) == ["abort", "abort"]
    brokers.add(ELSEWHERE, caused(42))
    assert verdicts(tmp_path, *parts) == ["commit", "commit"]


def test_given_marks_that_are_decided_then_outputs_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch, {SOURCE: 40})
    brokers.add(MARKS, caused(39))
    brokers.add(ELSEWHERE, caused(39))
    offsets = brokers.add(OFFSETS, group_offset(42), hangs=True)
    assert verdicts(tmp_path, hangs(OFFSETS, offsets)) == ["abort"]
    assert {place for place, _, _ in brokers.reads} == {OFFSETS, MARKS}


def test_given_a_mark_far_back_then_it_is_found_without_reading_anything_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "WINDOW", 2)
    brokers = Brokers(monkeypatch)
    brokers.add(MARKS, caused(41), *[caused(9, "another")] * 20)
    start = brokers.add(OUT, caused(41), hangs=True)
    assert verdicts(tmp_path, hangs(OUT, start)) == ["commit"]
    assert [(low, high) for place, low, high in brokers.reads if place == MARKS] == [(19, 21), (11, 19), (0, 11)]


def test_given_a_producer_that_is_not_over_or_unknown_then_its_part_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch)
    start = brokers.add(OUT, caused(41), hangs=True)
    pending = Pending(Open(*MARKS, 7, 1, 0, 0, 0), f"{GROUP}-0", "Ongoing")
    assert verdicts(tmp_path, hangs(OUT, start), pending=(pending,)) == ["leave"]
    assert verdicts(tmp_path, hangs(OUT, start, name=None)) == ["leave"]
    assert verdicts(tmp_path, hangs(OUT, start)) == ["abort"]
    brokers.offsets = {SOURCE: 42}
    assert verdicts(tmp_path, hangs(OUT, start, name=None)) == ["commit"]


def test_given_parts_of_other_apps_then_they_are_set_apart_and_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers(monkeypatch)
    start = brokers.add(OFFSETS, group_offset(42, "another"), hangs=True)
    theirs = hangs(OFFSETS, start, name=None), hangs(OUT, brokers.add(OUT, caused(1), hangs=True), name=f"{GROUP}-b-0")
    found = evidence.weigh(config(tmp_path), NEEDED, Findings(theirs))
    assert found == Findings((), (), theirs)
    assert brokers.asked == []


def test_given_many_hanging_parts_then_what_is_decided_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "WINDOW", 2)
    brokers = Brokers(monkeypatch, {SOURCE: 5})
    brokers.add(ELSEWHERE, *[caused(3, "another")] * 30, caused(41))
    offsets = brokers.add(OFFSETS, group_offset(49), hangs=True)
    marks = brokers.add(MARKS, caused(48), hangs=True)
    out = brokers.add(OUT, caused(45), hangs=True)
    rows = brokers.add(ROWS, caused(48), hangs=True)
    parts = [hangs(MARKS, marks), hangs(ROWS, rows), hangs(OFFSETS, offsets), hangs(OUT, out)]
    assert verdicts(tmp_path, *parts) == ["commit"] * 4
    read = [(low, high) for place, low, high in brokers.reads if place == ELSEWHERE]
    assert read == [(29, 31)]

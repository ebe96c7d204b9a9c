"""What brokers show of a hanging transaction: which source records it is of, and how far what is decided reaches.

Read are the hanging parts themselves, from where they begin; the group's offset; the newest source mark of the unit's
changelog; and, where that one hangs itself, outputs. See :mod:`.verdict` for what follows from it.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import cast

from confluent_kafka import Message

from .changelog import SourceMark, source_of, table_of
from .config import EngineConfig
from .findings import Findings, Hanging
from .hanging import OFFSETS_TOPIC, offsets_place
from .logs import Logs
from .position import SourcePosition
from .reading import read
from .topics import Needed
from .verdict import Leave, Shown, Verdict, judge
from .wire import Partition

#: Records of one transaction were written within its timeout; clocks of producers and brokers differ by less (ms).
MARGIN = 5 * 60_000
#: The newest records are read first, then four times as many before them, and so on.
WINDOW = 2_000


@dataclass(frozen=True, slots=True)
class Claim:
    """A record belongs to a transaction that processes the partition ``source`` up to ``reached`` or further.

    ``group`` is whose offset it is, ``None`` for other records.
    """

    source: Partition
    reached: int
    group: str | None = None


def claim_of(record: Message) -> Claim | None:
    """Return what a record of an output or a changelog says, ``None`` when nothing."""
    key, value, partition = record.key(), record.value(), record.partition()
    try:
        position = SourcePosition.from_headers(cast("list[tuple[str, object]]", record.headers() or []))
        if position is not None:
            return Claim((position.topic, position.partition), position.offset + 1)
        # A mark of a start, or of before changelogs had the header.
        topic = source_of(key) if key is not None else None
        if topic is None or value is None or partition is None:
            return None
        return Claim((topic, partition), SourceMark.decode(value).offset)
    except ValueError:
        return None  # somebody else's


def offset_claim_of(record: Message) -> Claim | None:
    """Return what a record of __consumer_offsets says, ``None`` when it is no group's offset.

    Format: OffsetCommitKey.json (versions 0 and 1) and OffsetCommitValue.json of apache/kafka, group-coordinator.
    """
    key, value = record.key(), record.value()
    if key is None or value is None:
        return None
    try:
        (version,) = struct.unpack_from(">h", key)
        if version > 1:
            return None
        group, at = _text(key, 2)
        topic, at = _text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        (offset,) = struct.unpack_from(">q", value, 2)
    except (struct.error, UnicodeDecodeError):
        return None
    return Claim((topic, partition), offset, group)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


def weigh(config: EngineConfig, needed: Needed, found: Findings) -> Findings:
    """Return the findings with the verdict of each hanging part, and what is of another app set apart.

    Changes nothing. Raises Refused without the right to read, Crash when brokers do not answer.
    """
    return _Scales(config, needed, found).weigh() if found.hanging else found


class _Scales:
    def __init__(self, config: EngineConfig, needed: Needed, found: Findings) -> None:
        self._config = config
        self._found = found
        self._logs = Logs(config)
        self._facts = self._logs.describe((*needed.changelogs, *needed.outputs, OFFSETS_TOPIC))
        #: Where the source marks are, as Unit.marks_topic has it.
        self._marks = min(needed.changelogs, key=lambda name: table_of(config.group, name), default="")
        self._changelogs = set(needed.changelogs)
        self._offsets = (OFFSETS_TOPIC, -1)
        if OFFSETS_TOPIC in self._facts:
            self._offsets = offsets_place(config.group, self._facts[OFFSETS_TOPIC].partitions)
        written = {(t, p) for t in (*needed.changelogs, *needed.outputs) for p in range(self._facts[t].partitions)}
        self._ranges = self._logs.ranges(written | {_place(item) for item in found.hanging}, self._facts)
        self._written = sorted(written)
        self._claims = {item: self._claim(item) for item in found.hanging}
        self._ours = [item for item in found.hanging if self._is_ours(item)]
        sources = [claim.source for item in self._ours if (claim := self._claims[item]) is not None]
        self._committed = self._logs.committed(sources)
        self._shows: dict[Partition, _Newest] = {}

    def weigh(self) -> Findings:
        weighed = tuple(replace(item, verdict=self._verdict(item)) for item in self._ours)
        foreign = tuple(item for item in self._found.hanging if item not in self._ours)
        return Findings(weighed, self._found.pending, foreign)

    def _claim(self, item: Hanging) -> Claim | None:
        place, start = _place(item), item.transaction.start_offset
        records = read(self._config, *place, start, self._ranges[place].end, undecided=True)
        if item.role == "changelog":
            # Nobody else writes here; the last record of a transaction says it.
            return next((claim for record in records if (claim := claim_of(record)) is not None), None)
        # The first is certainly of this producer, later ones may be anybody's.
        first = next(records, None)
        if first is None or first.offset() != start:
            return None
        return offset_claim_of(first) if item.role == "offsets" else claim_of(first)

    def _is_ours(self, item: Hanging) -> bool:
        if item.transactional_id is not None:
            return re.fullmatch(re.escape(self._config.group) + r"-\d+", item.transactional_id) is not None
        claim = self._claims[item]
        return claim is None or claim.group in (None, self._config.group)

    def _verdict(self, item: Hanging) -> Verdict:
        producer = item.transaction.producer_id
        if any(pending.transaction.producer_id == producer for pending in self._found.pending):
            return Leave("its producer has a transaction that is not over: look again in a minute")
        parts = [part for part in self._ours if part.transaction.producer_id == producer]
        claim = next((found for part in (item, *parts) if (found := self._claims[part]) is not None), None)
        if claim is None:
            return Leave("its records do not say what they were caused by: compare by hand")
        shown = self._shown(item, parts, claim.source)
        if item.transactional_id is None and not any(fact.ends for _, fact in shown):
            return Leave(f"neither its producer nor its source {_name(claim.source)} is known to this group")
        own = next((fact for place, fact in shown if place == _place(item)), None)
        return judge(claim.reached, own, [fact for place, fact in shown if place != _place(item)])

    def _shown(self, item: Hanging, parts: list[Hanging], source: Partition) -> list[tuple[Partition, Shown]]:
        """How far ``source`` is processed by what is decided, and where it shows; the sure and cheap first."""
        hung = {_place(part) for part in parts}
        marks = (self._marks, source[1])
        since = self._since(parts)
        found: list[tuple[Partition, Shown]] = []
        if (offset := self._committed[source]) is not None:
            found.append((self._offsets, Shown(f"the group's offset of {_name(source)}", offset, ends=True)))
        if marks in self._ranges and (mark := self._reached(marks, source, self._ranges[marks].start)) is not None:
            found.append((marks, Shown(f"the mark in {_name(marks)}", mark, ends=True)))
        # A mark that is decided says it all. The group's offset may be an old one, after a restart of its coordinator.
        blind = marks in hung
        for place in self._written:
            topic, partition = place
            if place == marks or (topic in self._changelogs and partition != source[1]):
                continue
            if place == _place(item) or (blind and place not in hung):
                reached = self._reached(place, source, since[place])
                if reached is not None:
                    found.append((place, Shown(f"what {_name(place)} shows", reached, topic in self._changelogs)))
        return found

    def _since(self, parts: list[Hanging]) -> dict[Partition, int]:
        """Where to look from: nothing of the transaction lies before."""
        began = min(part.transaction.last_timestamp for part in parts) - MARGIN
        found = self._logs.since(self._written, began)
        return {place: self._ranges[place].stable if at is None else at for place, at in found.items()}

    def _reached(self, place: Partition, source: Partition, low: int) -> int | None:
        """How far the newest decided record for ``source`` reaches, not looking before the offset ``low``."""
        if place not in self._shows:
            self._shows[place] = _Newest(self._config, place, self._ranges[place].stable)
        return self._shows[place].of(source, low)


class _Newest:
    """The newest decided claim of each source in a partition. Read from its end backwards, no further than asked, and
    nothing twice: of many hanging parts each asks about every partition."""

    def __init__(self, config: EngineConfig, place: Partition, end: int) -> None:
        self._config = config
        self._place = place
        self._bottom, self._size = end, WINDOW
        self._found: dict[Partition, tuple[int, int]] = {}

    def of(self, source: Partition, low: int) -> int | None:
        """How far it reaches; ``None`` when it lies before the offset ``low``, or there is none."""
        while source not in self._found and self._bottom > low:
            self._read_on(low)
        offset, reached = self._found.get(source, (-1, 0))
        return reached if offset >= low else None

    def _read_on(self, low: int) -> None:
        bottom = max(low, self._bottom - self._size)
        newest: dict[Partition, tuple[int, int]] = {}
        for record in read(self._config, *self._place, bottom, self._bottom):
            claim, offset = claim_of(record), record.offset()
            if claim is not None and offset is not None:
                newest[claim.source] = offset, claim.reached
        self._found = newest | self._found
        self._bottom, self._size = bottom, 4 * self._size


def _place(item: Hanging) -> Partition:
    return item.transaction.topic, item.transaction.partition


def _name(place: Partition) -> str:
    return f"{place[0]}[{place[1]}]"

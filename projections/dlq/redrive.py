"""Redriving letters, so that twice is once wherever it was broken off.

    choose ─► tx: redriving, and how long the input is ─► append, named after the letter ─► tx: redriven
                                                       ▲
    redriving already ─► is it behind that place? ─────┤ no
                                                       └ yes ─► tx: redriven

One redrives at a time (an advisory lock that ends with the connection). A record that was appended all the same after
its redriver was killed is a duplicate for the agent, as any record sent twice is. What a projection could not apply is
folded and marked in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, assert_never, cast

from confluent_kafka import Message

from projections.base import Projection
from projections.dlq.desk import Chosen, Desk, Letter, Sent, Status
from projections.dlq.reading import Places
from projections.dlq.rereading import reread
from projections.dlq.ways import HEADER, PROJECTION, Append, Cannot, Reread, Revive, Way, way_of
from schemas.events import DeadLetter
from schemas.topics import DEAD_LETTERS, Topic
from streams.runtime.clock import Clock
from streams.runtime.contract import Contract
from streams.runtime.errors import Permanent, PlayheadError
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.outlet import Outlet
from streams.runtime.settings import KafkaSettings

CHUNK: Final = 100
_REVIVE: Final = b"""
UPDATE core.tasks SET dead_at = NULL, attempts = 0, next_attempt_at = now()
WHERE kind = %(kind)s AND dead_at IS NOT NULL
  AND (key = %(key)s OR source_id = %(source_id)s
       AND (payload ->> 'record' = %(key)s OR %(key)s::text IS NULL AND wanted_version = %(version)s))"""


@dataclass(slots=True)
class Outcome:
    """Ids of letters: ``done`` in this run, ``refused`` with the reason, ``failed`` again with the error."""

    done: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


class Redriver:
    """Not thread-safe. ``projections``: by name, those whose records can be read again."""

    def __init__(
        self,
        desk: Desk,
        kafka: KafkaSettings,
        contract: Contract,
        clock: Clock,
        projections: Mapping[str, Projection[Any]],
        *,
        letters_topic: Topic = DEAD_LETTERS,
        failpoint: Failpoint = disarmed,
    ) -> None:
        self._desk = desk
        self._kafka = kafka
        self._contract = contract
        self._clock = clock
        self._projections = projections
        self._letters_topic = letters_topic
        self._failpoint = failpoint

    def ways(self, letters: Sequence[Letter]) -> dict[str, Way]:
        """What redriving each of them would be. Changes nothing."""
        with Places(self._kafka) as places:
            originals = self._originals(places, letters)
        return {one.letter_id: self._way(one, originals.get(one.letter_id)) for one in letters}

    def payload(self, letter: Letter) -> dict[str, Any]:
        """The record's key and bytes, and the event in them when this build can read it."""
        with Places(self._kafka) as places:
            original = self._originals(places, [letter]).get(letter.letter_id)
        if original is None:
            return {"gone": "its bytes are not in the log any more"}
        found: dict[str, Any] = {
            "key": None if original.key is None else original.key.decode("utf-8", "backslashreplace"),
            "value": None if original.value is None else original.value.hex(),
        }
        try:
            event = None if original.value is None else self._contract.decode(original.value)
        except PlayheadError as exc:
            return found | {"undecodable": str(exc)}
        return found if event is None else found | {"event": type(event).__name__, "fields": asdict(event)}

    def redrive(
        self,
        chosen: Chosen,
        reason: str,
        *,
        again: bool = False,
        moved: Callable[[int], None] = lambda _: None,
    ) -> Outcome:
        """Redrive the letters that are ``chosen``. ``again``: those that were redriven before as well.

        ``moved`` hears how many more are settled. Raises Unavailable when somebody else redrives, or anything is away:
        the same again goes on where it was.
        """
        self._desk.alone()
        # Looked at only now: who redrove before may have left some half done.
        letters = self._desk.letters(chosen)
        outcome = Outcome()
        oldest_first = sorted(letters, key=lambda one: (one.topic, one.topic_partition, one.topic_offset))
        outlet = Outlet(self._kafka)
        try:
            with Places(self._kafka) as places:
                for start in range(0, len(oldest_first), CHUNK):
                    chunk = oldest_first[start : start + CHUNK]
                    self._chunk(places, outlet, chosen, chunk, reason, again, outcome)
                    moved(len(chunk))
        finally:
            outlet.close()
        return outcome

    def _chunk(
        self,
        places: Places,
        outlet: Outlet,
        chosen: Chosen,
        letters: Sequence[Letter],
        reason: str,
        again: bool,
        outcome: Outcome,
    ) -> None:
        originals = self._originals(places, letters)
        appends: list[tuple[Letter, Append]] = []
        rereads: list[tuple[Letter, Reread]] = []
        for letter in letters:
            way = self._way(letter, originals.get(letter.letter_id))
            match way:
                case Cannot(why=why):
                    outcome.refused[letter.letter_id] = why
                case Append():
                    appends.append((letter, way))
                case Reread():
                    rereads.append((letter, way))
                case Revive():
                    self._revive(way, letter, chosen, reason, again, outcome)
                case _:
                    assert_never(way)
        for letter, message in self._records(places, rereads, outcome):
            self._reread(letter, message, chosen, reason, again, outcome)
        if appends:
            self._append(places, outlet, appends, chosen, reason, again, outcome)

    def _append(
        self,
        places: Places,
        outlet: Outlet,
        appends: Sequence[tuple[Letter, Append]],
        chosen: Chosen,
        reason: str,
        again: bool,
        outcome: Outcome,
    ) -> None:
        began = {letter.letter_id: _begun(letter) for letter, _ in appends if letter.status == Status.REDRIVING}
        ends = {
            (way.record.topic, way.record.partition): places.extent(way.record.topic, way.record.partition)[1]
            for _, way in appends
        }
        sent = {
            letter.letter_id: began.get(letter.letter_id)
            or Sent(way.record.topic, way.record.partition, ends[way.record.topic, way.record.partition])
            for letter, way in appends
        }
        with self._desk.transaction() as tx:
            ours = set(
                self._desk.mark(
                    tx, "redrive", list(sent), Status.REDRIVING, of=_redrivable(again), reason=reason, chosen=chosen
                )
            )
            self._desk.sending(tx, {letter: one for letter, one in sent.items() if letter in ours})
        self._failpoint("dlq.marked")
        found = self._appended_before(places, {letter: one for letter, one in began.items() if one and letter in ours})
        todo = [(letter, way) for letter, way in appends if letter.letter_id in ours - found.keys()]
        acknowledged = outlet.publish([way.record for _, way in todo])
        self._failpoint("dlq.appended")
        for (letter, way), place in zip(todo, acknowledged, strict=True):
            found[letter.letter_id] = Sent(
                way.record.topic, way.record.partition, sent[letter.letter_id].begin, place.offset
            )
        with self._desk.transaction() as tx:
            self._desk.sending(tx, found)
            self._desk.mark(
                tx, "redriven", list(found), Status.REDRIVEN, of=(Status.REDRIVING,), reason=reason, chosen=chosen
            )
        self._failpoint("dlq.done")
        for letter, _ in appends:
            place_of = found.get(letter.letter_id)
            if place_of is None:
                outcome.refused[letter.letter_id] = "somebody else has marked it meanwhile"
            else:
                outcome.done[letter.letter_id] = f"{place_of.topic}[{place_of.partition}]@{place_of.offset}"

    def _appended_before(self, places: Places, began: Mapping[str, Sent]) -> dict[str, Sent]:
        """Those of ``began`` whose record lies in the log already."""
        found: dict[str, Sent] = {}
        by_partition: dict[tuple[str, int], list[str]] = {}
        for letter, sent in began.items():
            by_partition.setdefault((sent.topic, sent.partition), []).append(letter)
        for (topic, partition), letters in by_partition.items():
            first, end = places.extent(topic, partition)
            begin = max(first, min(began[letter].begin for letter in letters))
            wanted = {letter.encode(): letter for letter in letters}
            for message in places.between(topic, partition, begin, end):
                named = wanted.get(_named(message))
                if named is not None and (message.offset() or 0) >= began[named].begin:
                    found.setdefault(named, Sent(topic, partition, began[named].begin, message.offset()))
        return found

    def _records(
        self, places: Places, rereads: Sequence[tuple[Letter, Reread]], outcome: Outcome
    ) -> list[tuple[Letter, Message]]:
        """The records themselves, in the order given; letters without one are refused."""
        wanted: dict[str, list[tuple[int, int]]] = {}
        for letter, way in rereads:
            projection = self._projections.get(way.projection)
            if projection is None or projection.topic.name != letter.topic:
                outcome.refused[letter.letter_id] = "there is no such projection of its topic"
            else:
                wanted.setdefault(letter.topic, []).append((letter.topic_partition, letter.topic_offset))
        found = {topic: places.at(topic, its) for topic, its in wanted.items()}
        records: list[tuple[Letter, Message]] = []
        for letter, _ in rereads:
            message = found.get(letter.topic, {}).get((letter.topic_partition, letter.topic_offset))
            if message is not None:
                records.append((letter, message))
            else:
                outcome.refused.setdefault(letter.letter_id, "the record is not in the log any more")
        return records

    def _reread(
        self, letter: Letter, message: Message, chosen: Chosen, reason: str, again: bool, outcome: Outcome
    ) -> None:
        projection = self._projections[letter.consumer.removeprefix(PROJECTION)]
        self._desk.prepare(projection)
        try:
            with self._desk.transaction() as tx:
                marked = self._desk.mark(
                    tx, "reread", [letter.letter_id], Status.REDRIVEN, of=_redrivable(again), reason=reason,
                    chosen=chosen,
                )  # fmt: skip
                if not marked:
                    outcome.refused[letter.letter_id] = "somebody else has marked it meanwhile"
                    return
                reread(projection, letter, message, self._contract, self._clock, tx)
                self._failpoint("dlq.folded")
        except Permanent as exc:
            outcome.failed[letter.letter_id] = str(exc)
            with self._desk.transaction() as tx:
                self._desk.failed(tx, letter.letter_id, str(exc))
            return
        self._failpoint("dlq.reread")
        outcome.done[letter.letter_id] = "folded at its place"

    def _revive(self, way: Revive, letter: Letter, chosen: Chosen, reason: str, again: bool, outcome: Outcome) -> None:
        with self._desk.transaction() as tx:
            marked = self._desk.mark(
                tx, "revive", [letter.letter_id], Status.REDRIVEN, of=_redrivable(again), reason=reason, chosen=chosen
            )
            named = {"kind": way.kind, "key": way.key, "source_id": letter.source_id, "version": letter.topic_offset}
            done = tx.execute(_REVIVE, named).rowcount if marked else 0
            if done:
                tx.execute(b"NOTIFY playhead_tasks")
        if not marked:
            outcome.refused[letter.letter_id] = "somebody else has marked it meanwhile"
            return
        outcome.done[letter.letter_id] = "due again" if done else "it was asked for again since"

    def _way(self, letter: Letter, original: DeadLetter | None) -> Way:
        return way_of(letter, original, self._contract, self._clock)

    def _originals(self, places: Places, letters: Sequence[Letter]) -> dict[str, DeadLetter]:
        """Letters with their bytes, as far as the log has them."""
        found = places.at(self._letters_topic.name, [(one.partition, one.version) for one in letters])
        originals: dict[str, DeadLetter] = {}
        for letter in letters:
            message = found.get((letter.partition, letter.version))
            value = None if message is None else message.value()
            event = None if value is None else self._contract.decode(value)
            if isinstance(event, DeadLetter) and event.event_id == letter.letter_id:
                originals[letter.letter_id] = event
        return originals


def _redrivable(again: bool) -> tuple[Status, ...]:
    settled = (Status.REDRIVEN,) if again else ()
    return (Status.OPEN, Status.REDRIVING, *settled)


def _begun(letter: Letter) -> Sent | None:
    if letter.sent_topic is None or letter.sent_partition is None or letter.sent_from is None:
        return None
    return Sent(letter.sent_topic, letter.sent_partition, letter.sent_from)


def _named(message: Message) -> bytes:
    """The letter a record was made of, b"" for none."""
    headers = cast(list[tuple[str, bytes | None]], message.headers() or [])
    return next((value for name, value in headers if name == HEADER and value is not None), b"")

"""The door's neighbours, in memory. Each keeps the contract of the real one (see people_contract.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from fastapi import FastAPI

from schemas.codec import Codec
from schemas.events import PlaybackReported
from schemas.registry import SchemaIds
from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.ingest.commands import Commands
from streams.ingest.door import Door
from streams.ingest.drain import Drain
from streams.ingest.http import ingest_router
from streams.ingest.identities import Changed
from streams.ingest.media import Media, MediaFacts
from streams.ingest.people import People
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.database import DatabaseAway
from streams.runtime.echoes import EXPIRY_S, SLACK_S, Back, Value, Way
from streams.runtime.edge import Limits
from streams.runtime.failpoints import Failpoint, disarmed
from streams.runtime.people import Person, UnknownSource
from streams.runtime.publisher import Acknowledged, BrokerAway, Record
from streams.runtime.spool import Spool
from streams.runtime.tokens import Authenticator, Principal, Scope, hash_of
from streams.runtime.web import Guard, build_app

HASH_KEY = b"0123456789abcdef0123456789abcdef"


class FakePublisher:
    """Kafka with perfect memory; ``away`` makes it doubtful, ``on_publish`` runs before the acknowledgement."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.away = False
        self.on_publish: Callable[[Sequence[Record]], None] = lambda records: None

    async def publish(
        self, records: Sequence[Record], *, produced: Callable[[], None] = lambda: None
    ) -> list[Acknowledged]:
        produced()
        self.on_publish(records)
        if self.away:
            raise BrokerAway("away")
        self.records += records
        return [Acknowledged(r.topic, r.partition, len(self.records)) for r in records]

    def of(self, topic: str) -> list[Record]:
        return [record for record in self.records if record.topic == topic]


@dataclass
class FakeDatabase:
    """One switch for all stores: ``away``."""

    away: bool = False
    calls: int = 0

    def ask(self) -> None:
        self.calls += 1
        if self.away:
            raise DatabaseAway("away")


@dataclass
class FakePeople:
    sources: set[str]
    database: FakeDatabase = field(default_factory=FakeDatabase)
    rows: dict[tuple[str, str], Person] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)

    async def find(self, source_id: str, upstream_users: Collection[str]) -> Mapping[str, Person]:
        self.database.ask()
        by_ref = {p.user_ref: Person(p.user_ref, True) for (source, _), p in self.rows.items() if source == source_id}
        found = {name: self.rows.get((source_id, name)) or by_ref.get(name) for name in upstream_users}
        return {name: person for name, person in found.items() if person is not None}

    async def add(self, source_id: str, refs: Mapping[str, str]) -> Mapping[str, Person]:
        self.database.ask()
        if source_id not in self.sources:
            raise UnknownSource
        for name, ref in refs.items():
            self.rows.setdefault((source_id, name), Person(ref, False))
        return {name: self.rows[source_id, name] for name in refs}

    async def mark_published(self, source_id: str, upstream_users: Collection[str]) -> None:
        self.database.ask()
        for name in upstream_users:
            if (source_id, name) in self.rows:
                self.rows[source_id, name] = Person(self.rows[source_id, name].user_ref, True)

    async def correct(self, source_id: str, upstream_user: str, user_ref: str) -> None:
        self.database.ask()
        if (source_id, upstream_user) in self.rows:
            self.rows[source_id, upstream_user] = Person(user_ref, True)

    async def drop(self, source_id: str, upstream_user: str, user_ref: str) -> None:
        self.database.ask()
        if (found := self.rows.get((source_id, upstream_user))) is not None and found.user_ref == user_ref:
            del self.rows[source_id, upstream_user]

    async def forgotten(self, account_hashes: Collection[str], user_refs: Collection[str]) -> Mapping[str, int]:
        self.database.ask()
        return {name: self.gone[name] for name in [*account_hashes, *user_refs] if name in self.gone}


class FakeIdentities:
    """identity.users as of now, read from what a FakePublisher was given; ``behind`` shows an older ``seen``."""

    def __init__(self, publisher: FakePublisher) -> None:
        self._publisher = publisher
        self.behind: dict[bytes, str] | None = None
        self.told: list[Changed] = []

    def _all(self) -> dict[bytes, str]:
        said = {record.key: record.value.decode() for record in self._publisher.of(IDENTITY_USERS.name)}
        return {key: value for key, value in said.items() if value}

    def seen(self, key: bytes) -> str | None:
        return (self._all() if self.behind is None else self.behind).get(key)

    async def current(self, keys: Collection[bytes]) -> Mapping[bytes, str]:
        if self._publisher.away:
            raise BrokerAway("away")
        return {key: ref for key, ref in self._all().items() if key in keys}

    def tell(self, changed: Changed) -> None:
        self.told.append(changed)


@dataclass
class FakeAliases:
    database: FakeDatabase = field(default_factory=FakeDatabase)
    rows: dict[tuple[str, str], str] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    """Times that names were looked up."""

    async def find(self, source_id: str, named: Collection[str]) -> Mapping[str, str]:
        self.database.ask()
        self.asked += 1
        ours = {media for (source, _), media in self.rows.items() if source == source_id}
        return {name: name for name in named if name in ours} | {
            name: self.rows[source_id, name] for name in named if (source_id, name) in self.rows
        }

    async def upstream(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, str]:
        self.database.ask()
        ours = sorted((name for source, name in self.rows if source == source_id), reverse=True)
        found = {self.rows[source_id, name]: name for name in ours}
        return {media: found[media] for media in media_ids if media in found}

    async def add(self, source_id: str, media: Mapping[str, str]) -> Mapping[str, str]:
        self.database.ask()
        for name, its_id in media.items():
            self.rows.setdefault((source_id, name), its_id)
        return {name: self.rows[source_id, name] for name in media}

    async def versions(self) -> Mapping[str, int]:
        self.database.ask()
        return dict(self.changes)

    def give(self, source_id: str, name: str, its_id: str) -> None:
        """The library's word."""
        self.rows[source_id, name] = its_id
        self.changes[source_id] = self.changes.get(source_id, 0) + 1


@dataclass
class FakeLedger:
    """Rows are [source, value hash, ways it came back]; nothing expires by itself."""

    database: FakeDatabase = field(default_factory=FakeDatabase)
    rows: dict[int, tuple[str, int, set[Way]]] = field(default_factory=dict)

    async def sent(
        self, source_id: str, user_ref: str, media_id: str, value: Value, expiry_s: float = EXPIRY_S
    ) -> None:
        self.database.ask()
        (value_hash,) = value.hashes(source_id, user_ref, media_id)
        self.rows[len(self.rows)] = (source_id, value_hash, set())

    async def returning(self, source_id: str, way: Way, reports: Sequence[Back]) -> Mapping[int, int]:
        self.database.ask()
        found: dict[int, int] = {}
        for place, back in enumerate(reports):
            hashes = back.value.hashes(source_id, back.user_ref, back.media_id, slack_s=SLACK_S)
            for row, (source, value_hash, ways) in self.rows.items():
                if source == source_id and value_hash in hashes and way not in ways and row not in found.values():
                    found[place] = row
                    break
        return found

    async def returned(self, way: Way, rows: Collection[int]) -> None:
        self.database.ask()
        for row in rows:
            self.rows[row][2].add(way)


@dataclass
class FakeSources:
    names: set[str]
    database: FakeDatabase = field(default_factory=FakeDatabase)

    async def exists(self, source_id: str) -> bool:
        self.database.ask()
        return source_id in self.names


@dataclass
class FakeKinds:
    database: FakeDatabase
    kinds: dict[str, str] = field(default_factory=lambda: {"home": "native", "jelly": "jellyfin", "music": "files"})

    async def kind_of(self, source_id: str) -> str | None:
        self.database.ask()
        return self.kinds.get(source_id)


@dataclass
class FakeTokens:
    database: FakeDatabase = field(default_factory=FakeDatabase)
    rows: dict[bytes, Principal] = field(default_factory=dict)
    asked: list[bytes] = field(default_factory=list)

    async def find(self, token_hash: bytes) -> Principal | None:
        self.asked.append(token_hash)
        self.database.ask()
        return self.rows.get(token_hash)


def token(letter: str) -> str:
    """A token of the right form, the same each time."""
    return "ph_" + letter * 43


class World:
    """A door with everything behind it in memory, and an application around it.

    Tokens: ``report`` (source home), ``jelly`` (source jelly), ``read``, ``operate`` (no source), ``music``
    (operates source music), ``bound``
    (source home, one person), ``revoked`` is none.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        failpoint: Failpoint = disarmed,
        facts: MediaFacts | None = None,
        at_once_max: int = 64,
        spool: Spool | None = None,
    ) -> None:
        self.spool = spool
        self.clock = FakeClock()
        self.database = FakeDatabase()
        sources = {"home", "jelly"}
        self.people = FakePeople(sources, self.database)
        self.aliases = FakeAliases(self.database)
        self.ledger = FakeLedger(self.database)
        self.publisher = FakePublisher()
        self.tokens = FakeTokens(self.database)
        self.kinds = FakeKinds(self.database)
        for letter, principal in {
            "r": Principal("t-report", "home", frozenset({Scope.REPORT})),
            "j": Principal("t-jelly", "jelly", frozenset({Scope.REPORT})),
            "d": Principal("t-read", "home", frozenset({Scope.READ})),
            "o": Principal("t-operate", None, frozenset({Scope.OPERATE})),
            "m": Principal("t-music", "music", frozenset({Scope.OPERATE})),
            "b": Principal("t-bound", "home", frozenset({Scope.REPORT}), "b" * 32),
        }.items():
            self.tokens.rows[hash_of(token(letter))] = principal
        self.report, self.jelly, self.read, self.operate, self.bound = map(token, "rjdob")
        self.music = token("m")
        self.codec = Codec(SchemaIds())
        self.door = self.another_door(failpoint=failpoint, facts=facts)
        self.guard = Guard(Authenticator(self.tokens, self.clock), at_once_max=at_once_max)
        self.app: FastAPI = build_app("test", limits=limits)
        commands = Commands(Contract(SchemaIds(), None, self.clock), self.publisher, self.kinds, self.clock)
        self.app.include_router(ingest_router(self.door, self.guard, commands))

    def another_door(self, *, failpoint: Failpoint = disarmed, facts: MediaFacts | None = None) -> Door:
        """A door of another process: the same stores and Kafka, its own memory."""
        return Door(
            contract=Contract(SchemaIds(), None, self.clock),
            publisher=self.publisher,
            people=People(self.people, self.publisher, HASH_KEY, self.clock, FakeIdentities(self.publisher)),
            media=Media(self.aliases, self.clock),
            sources=FakeSources({"home", "jelly"}, self.database),
            clock=self.clock,
            facts=facts,
            spool=self.spool,
            ledger=self.ledger,
            failpoint=failpoint,
        )

    def another_drain(self, door: Door, *, failpoint: Failpoint = disarmed) -> Drain:
        """What empties the world's spool through ``door``'s memory."""
        assert self.spool is not None
        return Drain(self.spool, door.identify, self.publisher, failpoint=failpoint)

    def reported(self) -> list[PlaybackReported]:
        """What stands in playback.reported, decoded."""
        events = [self.codec.decode(record.value) for record in self.publisher.of(PLAYBACK_REPORTED.name)]
        assert all(isinstance(event, PlaybackReported) for event in events)
        return [event for event in events if isinstance(event, PlaybackReported)]

    def identities(self) -> list[Record]:
        return self.publisher.of(IDENTITY_USERS.name)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://door") as client:
            yield client

    async def post(
        self, path: str, body: Any = None, *, token: str | None = None, content: Any = None, **headers: str
    ) -> httpx.Response:
        """POST JSON (or ``content`` as it is); header names with underscores for dashes."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        async with self.client() as client:
            if content is not None:
                return await client.post(path, content=content, headers=sent)
            return await client.post(path, json=body, headers=sent)


def progress(**changes: Any) -> dict[str, Any]:
    """A good native report."""
    return {
        "event_id": "tv-17:s3:42",
        "user": "ana",
        "media": "m-81",
        "media_kind": "video",
        "session_id": "s3",
        "device_id": "tv-17",
        "sequence": 42,
        "kind": "progress",
        "position_ms": 1_830_000,
        "duration_ms": 6_600_000,
        "occurred_at": "2026-11-29T20:15:00Z",
    } | changes

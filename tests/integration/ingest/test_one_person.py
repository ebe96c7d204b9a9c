"""One person, one user_ref: over restored tables, links, and doors that do not know of each other. All real."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from schemas.topics import IDENTITY_USERS
from streams.cli.app import main
from streams.ingest.identities import KafkaIdentities
from streams.ingest.people import identity_key, identity_record
from streams.runtime.publisher import BrokerAway, KafkaPublisher
from streams.runtime.settings import Settings
from tests.ingest.fakes import progress
from tests.integration.ingest.house import House, conninfo_of
from tests.stack import Database

pytestmark = pytest.mark.services
KEY = "one key of more than sixteen bytes"
SECONDS_MAX = 5.0


@asynccontextmanager
async def opened(house: House) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(house.app)
    async with house.ingest, httpx.AsyncClient(transport=transport, base_url="http://door", timeout=30) as client:
        yield client


async def send(client: httpx.AsyncClient, house: House, **changes: Any) -> None:
    answer = await client.post("/v1/playback", json=progress(**changes), headers=house.bearer)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)


async def ref_of(house: House, user: str) -> str:
    """Who the door takes ``user`` for."""
    return (await house.ingest.door.identify.people.refs("home", [user]))[user]


def test_after_the_table_was_restored_everybody_is_who_they_were(core: Database, topics: str, tmp_path: Path) -> None:
    async def scene() -> tuple[str, str, str]:
        first = House(topics, conninfo_of(core), tmp_path / "1", hash_key=KEY)
        async with opened(first) as client:
            await send(client, first, user="ana")
            before = await ref_of(first, "ana")
            with psycopg.connect(core.url, autocommit=True) as connection:
                connection.execute("DELETE FROM core.users")  # a backup from before ana was met
            # A door that remembers goes on; one that starts after the failover reads it from the log.
            await send(client, first, user="ana")
        second = House(topics, conninfo_of(core), tmp_path / "2", hash_key=KEY)
        async with opened(second) as client:
            await send(client, second, user="ana")
            return before, await ref_of(second, "ana"), await ref_of(second, "ben")

    before, after, ben = asyncio.run(scene())
    assert before == after != ben
    with psycopg.connect(core.url) as connection:
        rows = connection.execute("SELECT user_ref, published FROM core.users WHERE upstream_user = 'ana'").fetchall()
    assert rows == [(before, True)]


def test_linking_and_unlinking_reach_every_open_door_within_seconds(
    core: Database, topics: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    houses = [House(topics, conninfo_of(core), tmp_path / str(n), hash_key=KEY) for n in range(2)]
    monkeypatch.setattr(Settings, "load", lambda: houses[0].settings)

    async def command(*args: str) -> int:
        return await asyncio.to_thread(main, ["user", *args])

    async def become(user: str, wanted: str) -> None:
        deadline = time.monotonic() + SECONDS_MAX
        for house in houses:
            while await ref_of(house, user) != wanted:
                assert time.monotonic() < deadline, "a door does not know of it"
                await asyncio.sleep(0.05)

    async def scene() -> None:
        async with opened(houses[0]) as one, opened(houses[1]) as two:
            await send(one, houses[0], user="ana")
            await send(two, houses[1], user="ana-phone")
            ana, phone = await ref_of(houses[1], "ana"), await ref_of(houses[0], "ana-phone")
            assert ana != phone
            assert await command("link", "home", "ana-phone", "home/ana", "--json") == 0
            assert json.loads(capsys.readouterr().out) == {
                "source": "home",
                "account": "ana-phone",
                "user_ref": ana,
                "former": phone,
            }
            await become("ana-phone", ana)
            assert await command("link", "home", "ana-phone", ana) == 1
            assert await command("list", "--json") == 0
            listed = {one["upstream_user"]: one for one in json.loads(capsys.readouterr().out)}
            assert (listed["ana-phone"]["user_ref"], listed["ana-phone"]["own_ref"]) == (ana, phone)
            assert await command("unlink", "home", "ana-phone") == 0
            assert phone in capsys.readouterr().out
            await become("ana-phone", phone)
            assert await command("unlink", "home", "ana-phone") == 1
            assert await command("link", "home", "nobody", ana) == 1
            assert await command("link", "home", "ana-phone", "f" * 32) == 1

    asyncio.run(scene())


def test_the_log_of_people_is_followed_and_asked_up_to_its_end(topics: str, unique_name: Any) -> None:
    key = unique_name("key").encode()
    names = [unique_name("person") for _ in range(300)]
    news: list[tuple[bytes, str | None]] = []

    async def scene() -> None:
        client = {"bootstrap.servers": topics}
        async with KafkaPublisher(client, timeout_s=30) as publisher, KafkaIdentities(client) as identities:
            identities.tell(lambda one, ref: news.append((one, ref)))
            for turn in "ab":
                await publisher.publish([identity_record(key, "home", name, turn * 32) for name in names])
                keys = [identity_key(key, "home", name) for name in names]
                assert await identities.current(keys) == dict.fromkeys(keys, turn * 32)
            assert identities.seen(keys[0]) == "b" * 32
            gone = identity_record(key, "home", names[0], "")
            await publisher.publish([gone])
            assert await identities.current(keys[:1]) == {}
            assert identities.seen(keys[0]) is None
        assert (keys[0], None) in news

    asyncio.run(scene())
    assert IDENTITY_USERS.partitions == 12


def test_with_nobody_there_who_is_who_is_unavailable_and_quick_the_second_time() -> None:
    async def scene() -> None:
        async with KafkaIdentities({"bootstrap.servers": "127.0.0.1:1"}) as identities:
            for _ in range(2):
                with pytest.raises(BrokerAway):
                    await identities.current([b"00"])
            assert identities.seen(b"00") is None

    asyncio.run(scene())

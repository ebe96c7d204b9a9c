"""Media at the door: computed ids, aliases, and texts that may be either."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from streams.domain.identity import media_id
from streams.ingest.media import Facts, LibraryFacts, Media, Named
from streams.runtime.clock import FakeClock
from streams.runtime.database import DatabaseAway
from tests.ingest.fakes import FakeAliases

HEX = "a1b2c3d4e5f60718293a4b5c6d7e8f90"


def test_an_alias_goes_before_the_computed_id() -> None:
    store = FakeAliases()
    store.rows["home", "old-id"] = "1" * 32
    old, new = Named("old-id", False), Named("new-id", False)
    ids = asyncio.run(Media(store, FakeClock()).ids("home", {old, new}))
    assert ids == {old: "1" * 32, new: media_id("home", "new-id")}
    assert store.rows["home", "new-id"] == media_id("home", "new-id")


def test_without_the_database_the_id_is_computed_and_not_remembered_as_asked() -> None:
    store, clock = FakeAliases(), FakeClock()
    store.rows["home", "m"] = "1" * 32
    media, name = Media(store, clock), Named("m", True)
    store.database.away = True
    assert asyncio.run(media.ids("home", {name})) == {name: media_id("home", "m")}
    store.database.away = False
    assert asyncio.run(media.ids("home", {name})) == {name: "1" * 32}
    store.database.away = True
    clock.advance(120_000)
    assert asyncio.run(media.ids("home", {name})) == {name: "1" * 32}


def test_what_may_be_an_id_of_ours_waits_for_the_database() -> None:
    store = FakeAliases()
    store.database.away = True
    media = Media(store, FakeClock())
    with pytest.raises(DatabaseAway):
        asyncio.run(media.ids("home", {Named(HEX, True)}))
    upstream = Named(HEX, False)
    assert asyncio.run(media.ids("home", {upstream})) == {upstream: media_id("home", HEX)}


def test_the_same_name_in_two_sources_is_two_media() -> None:
    media, name = Media(FakeAliases(), FakeClock()), Named("m", True)
    assert asyncio.run(media.ids("home", {name})) != asyncio.run(media.ids("jelly", {name}))


def test_a_name_that_the_library_gave_to_another_media_leads_there_within_a_second() -> None:
    store, clock = FakeAliases(), FakeClock()
    media, name, other = Media(store, clock), Named("tr-1", False), Named("tr-2", False)

    async def scene() -> None:
        assert await media.ids("home", {name, other}) == {one: media_id("home", one.name) for one in (name, other)}
        store.give("home", "tr-1", "2" * 32)
        clock.advance(1_000)
        found = await asyncio.gather(*(media.ids("home", {name, other}) for _ in range(3)))
        assert found == 3 * [{name: "2" * 32, other: media_id("home", "tr-2")}]
        # All of them are known until something changes again.
        clock.advance(1_000)
        asked = store.asked
        await media.ids("home", {name, other})
        assert store.asked == asked

    asyncio.run(scene())


def test_with_the_database_away_names_are_what_they_were_when_it_went() -> None:
    store, clock = FakeAliases(), FakeClock()
    media, name = Media(store, clock), Named("tr-1", False)
    store.give("home", "tr-1", "2" * 32)

    async def scene() -> None:
        assert await media.ids("home", {name}) == {name: "2" * 32}
        store.database.away = True
        clock.advance(120_000)
        assert await media.ids("home", {name}) == {name: "2" * 32}
        store.give("home", "tr-1", "3" * 32)
        store.database.away = False
        clock.advance(1_000)
        assert await media.ids("home", {name}) == {name: "3" * 32}

    asyncio.run(scene())


def test_a_table_that_does_not_answer_whether_names_changed_is_not_waited_for() -> None:
    class Frozen(FakeAliases):
        async def versions(self) -> Mapping[str, int]:
            await asyncio.Event().wait()
            raise AssertionError

    media, name = Media(Frozen(), FakeClock()), Named("tr-1", False)
    assert asyncio.run(media.ids("home", {name})) == {name: media_id("home", "tr-1")}


class FakeLibrary:
    """As much of a database as LibraryFacts asks: rows of (media_id, media_kind, duration_ms)."""

    def __init__(self, *rows: tuple[str, str | None, int | None]) -> None:
        self.rows = rows
        self.away = False
        self.asked: list[list[str]] = []

    async def run(self, work: Any) -> Any:
        if self.away:
            raise DatabaseAway("away")
        return await work(self)

    async def execute(self, query: str, parameters: tuple[list[str]]) -> FakeLibrary:
        assert "api.media_facts" in query
        self.asked.append(sorted(parameters[0]))
        return self

    async def fetchall(self) -> list[tuple[str, str | None, int | None]]:
        return [row for row in self.rows if row[0] in self.asked[-1]]


def facts_of(library: FakeLibrary, clock: FakeClock, *asks: set[str]) -> list[Mapping[str, Facts]]:
    facts = LibraryFacts(cast(Any, library), clock)

    async def scene() -> list[Mapping[str, Facts]]:
        return [await facts.of("home", ids) for ids in asks]

    return asyncio.run(scene())


def test_what_scans_found_is_asked_once_a_minute_and_that_nothing_is_known_too() -> None:
    library = FakeLibrary(("m", "audiobook", 3_600_000))
    found = facts_of(library, FakeClock(), {"m", "n"}, {"m"}, {"n"}, {"m", "o"})
    assert found == [
        {"m": Facts("audiobook", 3_600_000)},
        {"m": Facts("audiobook", 3_600_000)},
        {},
        {"m": Facts("audiobook", 3_600_000)},
    ]
    assert library.asked == [["m", "n"], ["o"]]


def test_a_kind_nobody_plays_and_a_duration_of_nothing_are_not_known() -> None:
    library = FakeLibrary(("m", "book", 0), ("n", None, 60_000))
    assert facts_of(library, FakeClock(), {"m", "n"}) == [{"n": Facts(None, 60_000)}]


def test_with_the_database_away_what_was_known_lately_is_the_answer_or_nothing() -> None:
    library, clock = FakeLibrary(("m", "music", 200_000)), FakeClock()
    facts = LibraryFacts(cast(Any, library), clock)

    async def scene() -> None:
        assert await facts.of("home", {"m"}) == {"m": Facts("music", 200_000)}
        library.away = True
        clock.advance(120_000)
        assert await facts.of("home", {"m", "n"}) == {"m": Facts("music", 200_000)}
        clock.advance(3_600_000)
        assert await facts.of("home", {"m"}) == {}

    asyncio.run(scene())

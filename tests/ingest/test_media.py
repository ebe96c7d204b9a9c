"""Media at the door: computed ids, aliases, and texts that may be either."""

from __future__ import annotations

import asyncio

import pytest

from streams.domain.identity import media_id
from streams.ingest.media import Media, Named
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

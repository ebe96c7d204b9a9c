"""Reads through the cache: kept while nobody knows better, never older than what was seen."""

from __future__ import annotations

import asyncio

import pytest

from schemas.events import MERGED, WHOLE_MODEL
from schemas.placement import PARTITIONS, partition_of
from streams.runtime.cache import Cache, Stamp
from tests.integration.caches.kitchen import Kitchen
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("caches")]
ANA, FILM = "a" * 32, "f" * 32


def test_an_answer_is_kept_until_its_key_is_invalidated(kitchen: Kitchen) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    kitchen.relay_all()
    with kitchen.keeping():
        first = kitchen.progress(ANA, FILM)
        kitchen.forge(ANA, FILM, position_ms=77)
        again = kitchen.progress(ANA, FILM)
        assert first is not None
        assert again == first
        assert first["position_ms"] == 1_000
        version = kitchen.decide(ANA, FILM, 2_000)
        kitchen.relay_all()
        eventually(lambda: kitchen.floor(f"progress:{ANA}:{FILM}") == f"1.1.{version}", "the floor rose")
        newest = kitchen.progress(ANA, FILM)
        assert newest is not None
        assert (newest["position_ms"], newest["version"]) == (2_000, version)


def test_a_merge_makes_an_answer_stale_at_its_own_version(kitchen: Kitchen) -> None:
    version = kitchen.decide(ANA, FILM, 1_000)
    kitchen.relay_all()
    key = f"progress:{ANA}:{FILM}"
    with kitchen.keeping():
        first = kitchen.progress(ANA, FILM)
        kitchen.forge(ANA, FILM, position_ms=77)
        assert kitchen.progress(ANA, FILM) == first, "it is kept"
        kitchen.invalidate(key, partition=partition_of(ANA.encode(), PARTITIONS), version=version, reason=MERGED)

        def shown() -> bool:
            now = kitchen.progress(ANA, FILM)
            return now is not None and now["position_ms"] == 77

        eventually(shown, "the row of now is shown")
        newest = kitchen.decide(ANA, FILM, 2_000)
        kitchen.relay_all()
        eventually(lambda: kitchen.floor(key) == f"1.1.{newest}", "the floor rose")
        again = kitchen.progress(ANA, FILM)
        assert again is not None
        kitchen.forge(ANA, FILM, position_ms=88)
        assert kitchen.progress(ANA, FILM) == again, "the next decision is kept again"


def test_an_answer_of_a_former_model_is_not_shown_once_anybody_knows_of_the_next(kitchen: Kitchen) -> None:
    kitchen.decide(ANA, FILM, 1_000)
    kitchen.relay_all()

    async def hear(model_epoch: int) -> None:
        async with Cache(kitchen.server.url) as cache:
            await cache.raise_floors([(WHOLE_MODEL, Stamp(model_epoch, 1, 0))])

    with kitchen.keeping():
        first = kitchen.progress(ANA, FILM)
        assert first is not None
        kitchen.forge(ANA, FILM, position_ms=77)
        asyncio.run(hear(first["model_epoch"]))
        assert kitchen.progress(ANA, FILM) == first, "that model is the live one"
        asyncio.run(hear(first["model_epoch"] + 1))
        shown = kitchen.progress(ANA, FILM)
        assert shown is not None
        assert shown["position_ms"] == 77

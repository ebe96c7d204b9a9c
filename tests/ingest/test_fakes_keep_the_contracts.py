"""The fakes are held to what the real stores are held to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar, cast

from streams.runtime.people import AliasStore, PeopleStore
from tests.ingest.fakes import FakeAliases, FakePeople
from tests.ingest.people_contract import AliasStoreContract, PeopleStoreContract

T = TypeVar("T")


class TestFakePeople(PeopleStoreContract):
    def run(self, test: Callable[[PeopleStore, PeopleStore], Awaitable[T]]) -> T:
        store = FakePeople({"home", "jelly"})
        return asyncio.run(cast(Coroutine[Any, Any, T], test(store, store)))


class TestFakeAliases(AliasStoreContract):
    def run(self, test: Callable[[AliasStore, AliasStore], Awaitable[T]]) -> T:
        store = FakeAliases()
        return asyncio.run(cast(Coroutine[Any, Any, T], test(store, store)))

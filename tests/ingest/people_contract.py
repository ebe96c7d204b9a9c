"""What any PeopleStore and AliasStore keep; run against the fakes and against PostgreSQL."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from streams.runtime.people import AliasStore, PeopleStore, Person, UnknownSource

T = TypeVar("T")


class PeopleStoreContract(ABC):
    """``run`` gives the test two stores on the same rows; sources home and jelly exist."""

    @abstractmethod
    def run(self, test: Callable[[PeopleStore, PeopleStore], Awaitable[T]]) -> T: ...

    def test_someone_nobody_added_is_not_found(self) -> None:
        async def test(store: PeopleStore, _: PeopleStore) -> None:
            assert await store.find("home", ["ana"]) == {}

        self.run(test)

    def test_the_first_user_ref_stays_and_the_second_proposal_is_answered_with_it(self) -> None:
        async def test(store: PeopleStore, other: PeopleStore) -> None:
            assert await store.add("home", {"ana": "a" * 32}) == {"ana": Person("a" * 32, False)}
            assert await other.add("home", {"ana": "f" * 32}) == {"ana": Person("a" * 32, False)}

        self.run(test)

    def test_one_name_in_two_sources_is_two_people(self) -> None:
        async def test(store: PeopleStore, _: PeopleStore) -> None:
            await store.add("home", {"ana": "a" * 32})
            await store.add("jelly", {"ana": "b" * 32})
            assert await store.find("home", ["ana"]) == {"ana": Person("a" * 32, False)}
            assert await store.find("jelly", ["ana"]) == {"ana": Person("b" * 32, False)}

        self.run(test)

    def test_marking_as_published_shows_and_repeats_harmlessly(self) -> None:
        async def test(store: PeopleStore, _: PeopleStore) -> None:
            await store.add("home", {"ana": "a" * 32, "ben": "b" * 32})
            for _again in range(2):
                await store.mark_published("home", ["ana", "nobody"])
            assert await store.find("home", ["ana", "ben"]) == {
                "ana": Person("a" * 32, True),
                "ben": Person("b" * 32, False),
            }

        self.run(test)

    def test_an_account_is_dropped_while_it_is_still_that_person(self) -> None:
        async def test(store: PeopleStore, other: PeopleStore) -> None:
            await store.add("home", {"ana": "a" * 32, "ben": "b" * 32})
            await other.drop("home", "ana", "b" * 32)
            assert set(await store.find("home", ["ana", "ben"])) == {"ana", "ben"}
            await other.drop("home", "ana", "a" * 32)
            assert set(await store.find("home", ["ana", "ben"])) == {"ben"}

        self.run(test)

    def test_nobody_was_forgotten_of_whom_nothing_is_kept(self) -> None:
        async def test(store: PeopleStore, _: PeopleStore) -> None:
            assert await store.forgotten(["f" * 64], ["a" * 32]) == {}

        self.run(test)

    def test_who_is_corrected_is_published_and_nobody_else_is_made(self) -> None:
        async def test(store: PeopleStore, other: PeopleStore) -> None:
            await store.add("home", {"ana": "a" * 32})
            await other.correct("home", "ana", "b" * 32)
            await other.correct("home", "nobody", "c" * 32)
            assert await store.find("home", ["ana", "nobody"]) == {"ana": Person("b" * 32, True)}

        self.run(test)

    def test_a_user_ref_finds_its_person_within_the_source_only(self) -> None:
        async def test(store: PeopleStore, _: PeopleStore) -> None:
            await store.add("home", {"ana": "a" * 32})
            assert await store.find("home", ["a" * 32]) == {"a" * 32: Person("a" * 32, True)}
            assert await store.find("jelly", ["a" * 32]) == {}

        self.run(test)

    def test_a_source_nobody_made_has_no_people(self) -> None:
        async def test(store: PeopleStore, _: PeopleStore) -> None:
            with pytest.raises(UnknownSource):
                await store.add("attic", {"ana": "a" * 32})

        self.run(test)

    def test_many_adding_the_same_people_at_once_agree(self) -> None:
        async def test(store: PeopleStore, other: PeopleStore) -> None:
            names = [f"u{n}" for n in range(20)]
            proposals = [
                {name: f"{turn:02x}{index:030x}" for index, name in enumerate(names[::step])}
                for turn, step in enumerate([1, -1] * 4)
            ]
            stores = [store, other] * 4
            answers = await asyncio.gather(*(s.add("home", p) for s, p in zip(stores, proposals, strict=True)))
            assert all(answer == answers[0] for answer in answers)
            assert {p.user_ref for p in answers[0].values()} <= {ref for p in proposals for ref in p.values()}

        self.run(test)


class AliasStoreContract(ABC):
    @abstractmethod
    def run(self, test: Callable[[AliasStore, AliasStore], Awaitable[T]]) -> T: ...

    def test_an_alias_that_was_there_wins(self) -> None:
        async def test(store: AliasStore, other: AliasStore) -> None:
            await store.add("home", {"m-1": "1" * 32})
            assert await other.add("home", {"m-1": "2" * 32, "m-2": "3" * 32}) == {"m-1": "1" * 32, "m-2": "3" * 32}

        self.run(test)

    def test_our_id_is_turned_into_what_the_source_calls_it(self) -> None:
        async def test(store: AliasStore, _: AliasStore) -> None:
            await store.add("home", {"m-1": "1" * 32, "also-m-1": "1" * 32})
            assert await store.upstream("home", ["1" * 32, "2" * 32]) == {"1" * 32: "also-m-1"}
            assert await store.upstream("jelly", ["1" * 32]) == {}

        self.run(test)

    def test_both_the_upstream_id_and_our_id_are_found_within_the_source(self) -> None:
        async def test(store: AliasStore, _: AliasStore) -> None:
            await store.add("home", {"m-1": "1" * 32})
            assert await store.find("home", ["m-1", "1" * 32, "m-9"]) == {"m-1": "1" * 32, "1" * 32: "1" * 32}
            assert await store.find("jelly", ["m-1", "1" * 32]) == {}

        self.run(test)

    def test_what_doors_add_is_no_change_of_the_librarys(self) -> None:
        async def test(store: AliasStore, _: AliasStore) -> None:
            await store.add("home", {"m-1": "1" * 32})
            assert await store.versions() == {}

        self.run(test)

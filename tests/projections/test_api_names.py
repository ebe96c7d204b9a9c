"""Who and what a path means."""

from __future__ import annotations

import asyncio

import pytest

from projections.api.names import Names
from streams.domain.identity import media_id
from streams.runtime.people import Person
from streams.runtime.problems import Problem
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import FakeAliases, FakePeople

ANA, BO = "a" * 32, "b" * 32
READ = frozenset({Scope.READ})
HOME = Principal("t1", "home", READ)
BOUND = Principal("t2", "home", READ, ANA)
NOWHERE = Principal("t3", None, READ)


def names() -> Names:
    people = FakePeople({"home", "flat"})
    people.rows = {
        ("home", "ana"): Person(ANA, True),
        ("flat", "bo"): Person(BO, True),
        ("home", BO): Person(ANA, True),
    }
    aliases = FakeAliases()
    aliases.rows = {("home", "m-1"): "c" * 32}
    return Names(people, aliases)


def user(caller: Principal, name: str, source: str | None = None) -> str:
    made = names()
    return asyncio.run(made.user(caller, name, made.source(caller, source)))


def status(caller: Principal, name: str, source: str | None = None) -> int:
    with pytest.raises(Problem) as refused:
        user(caller, name, source)
    return refused.value.status_code


def test_a_person_is_found_by_the_sources_name_and_by_user_ref() -> None:
    assert user(HOME, "ana") == ANA
    assert user(HOME, ANA) == ANA
    assert user(BOUND, "ana") == ANA


def test_the_sources_own_name_goes_before_a_user_ref_of_the_same_spelling() -> None:
    assert user(HOME, BO) == ANA


def test_people_of_other_sources_and_other_people_do_not_exist_for_a_caller() -> None:
    assert status(HOME, "bo") == 404
    assert status(HOME, "nobody") == 404
    assert status(HOME, "ana", "flat") == 404
    assert status(Principal("t4", "home", READ, BO), "ana") == 404


def test_a_caller_without_a_source_names_one_or_uses_user_refs() -> None:
    assert user(NOWHERE, "ana", "home") == ANA
    assert user(NOWHERE, BO) == BO
    assert status(NOWHERE, "ana") == 422


def media(name: str, source: str | None) -> list[str]:
    return asyncio.run(names().media(name, source))


def test_media_are_found_by_alias_by_our_id_and_by_computing_it() -> None:
    assert media("m-1", "home") == ["c" * 32]
    assert media("c" * 32, "home") == ["c" * 32]
    assert media("m-2", "home") == [media_id("home", "m-2")]
    assert media("d" * 32, "home") == ["d" * 32, media_id("home", "d" * 32)]
    assert media("d" * 32, None) == ["d" * 32]
    with pytest.raises(Problem):
        media("m-2", None)

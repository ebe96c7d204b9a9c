"""People at the door: one user_ref each, acknowledged before it is used."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from schemas.placement import partition_of
from schemas.topics import IDENTITY_USERS
from streams.ingest.people import (
    FOR_EVER,
    STALE_S,
    People,
    identity_key,
    identity_record,
    marker_of_account,
    marker_of_person,
    marker_value,
)
from streams.runtime.clock import FakeClock
from streams.runtime.database import DatabaseAway
from streams.runtime.people import Person
from streams.runtime.publisher import BrokerAway, Record
from tests.ingest.fakes import HASH_KEY, FakeIdentities, FakePeople, FakePublisher


def house(
    store: FakePeople,
    publisher: FakePublisher,
    clock: FakeClock | None = None,
    identities: FakeIdentities | None = None,
) -> People:
    return People(store, publisher, HASH_KEY, clock or FakeClock(), identities or FakeIdentities(publisher))


def test_a_new_person_is_acknowledged_in_identity_users_under_a_keyed_hash() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    refs = asyncio.run(house(store, publisher).refs("home", ["ana@example.org"]))
    [record] = publisher.records
    assert (record.topic, record.value.decode()) == (IDENTITY_USERS.name, refs["ana@example.org"])
    assert record.key == identity_key(HASH_KEY, "home", "ana@example.org")
    assert record.partition == partition_of(record.key)
    assert b"ana" not in record.key + record.value
    assert len(refs["ana@example.org"]) == 32
    assert store.rows["home", "ana@example.org"].published


def test_the_hash_depends_on_key_source_and_user() -> None:
    keys = {
        identity_key(HASH_KEY, "home", "ana"),
        identity_key(b"another-key-of-16", "home", "ana"),
        identity_key(HASH_KEY, "homea", "na"),
        identity_key(HASH_KEY, "home", "anb"),
    }
    assert len(keys) == 4


def test_a_person_kafka_did_not_acknowledge_is_not_used_and_is_tried_again() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    people = house(store, publisher)

    def fail(records: Sequence[Record]) -> None:
        raise BrokerAway("away")

    publisher.on_publish = fail
    with pytest.raises(BrokerAway):
        asyncio.run(people.refs("home", ["ana"]))
    kept = store.rows["home", "ana"]
    assert not kept.published
    publisher.on_publish = lambda records: None
    assert asyncio.run(people.refs("home", ["ana"])) == {"ana": kept.user_ref}
    assert [record.value.decode() for record in publisher.records] == [kept.user_ref]


def test_two_doors_meeting_one_person_at_the_same_time_agree() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    first, second = house(store, publisher), house(store, publisher)
    met: list[dict[str, str]] = []

    def second_comes_in_between(records: Sequence[Record]) -> None:
        publisher.on_publish = lambda records: None
        refs = second.refs("home", ["ana"])
        with pytest.raises(StopIteration) as done:
            refs.send(None)
        met.append(done.value.value)

    publisher.on_publish = second_comes_in_between
    met.append(asyncio.run(first.refs("home", ["ana"])))
    assert met[0] == met[1]
    assert len(store.rows) == 1
    assert {record.value.decode() for record in publisher.records} == {met[0]["ana"]}


def test_a_remembered_person_costs_no_question_and_passes_while_the_database_is_away() -> None:
    store, publisher, clock = FakePeople({"home"}), FakePublisher(), FakeClock()
    people = house(store, publisher, clock)
    refs = asyncio.run(people.refs("home", ["ana"]))
    asked = store.database.calls
    assert asyncio.run(people.refs("home", ["ana"])) == refs
    assert store.database.calls == asked
    store.database.away = True
    clock.advance(int(STALE_S * 1000) - 1)
    assert asyncio.run(people.refs("home", ["ana"])) == refs
    with pytest.raises(DatabaseAway):
        asyncio.run(people.refs("home", ["ana", "ben"]))
    clock.advance(1)
    with pytest.raises(DatabaseAway):
        asyncio.run(people.refs("home", ["ana"]))


def test_a_changed_user_ref_is_noticed() -> None:
    store, publisher, clock = FakePeople({"home"}), FakePublisher(), FakeClock()
    people = house(store, publisher, clock)
    refs = asyncio.run(people.refs("home", ["ana", "ben"]))
    link(store, publisher, "ana", refs["ben"])
    clock.advance(60_000)
    assert asyncio.run(people.refs("home", ["ana"])) == {"ana": refs["ben"]}


def link(store: FakePeople, publisher: FakePublisher, name: str, user_ref: str) -> Record:
    """As the command does it: in the log, then in the table."""
    record = identity_record(HASH_KEY, "home", name, user_ref)
    publisher.records.append(record)
    store.rows["home", name] = Person(user_ref, True)
    return record


def test_news_of_a_link_reaches_who_is_remembered_at_once_and_makes_nobody_remembered() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    identities = FakeIdentities(publisher)
    people = house(store, publisher, identities=identities)
    refs = asyncio.run(people.refs("home", ["ana", "ben"]))
    record = link(store, publisher, "ana", refs["ben"])
    for told in identities.told:
        told(record.key, record.value.decode())
        told(identity_key(HASH_KEY, "home", "cleo"), "c" * 32)
    asked = store.database.calls
    assert asyncio.run(people.refs("home", ["ana"])) == {"ana": refs["ben"]}
    assert store.database.calls == asked
    assert people.remembered("home", ["cleo"]) == {}
    for told in identities.told:
        told(record.key, None)
    assert people.remembered("home", ["ana", "ben"]) == {"ben": refs["ben"]}


def test_a_table_restored_to_before_somebody_was_met_gives_them_the_user_ref_they_had() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    refs = asyncio.run(house(store, publisher).refs("home", ["ana", "ben"]))
    del store.rows["home", "ana"]
    again = asyncio.run(house(store, publisher).refs("home", ["ana", "ben", "cleo"]))
    assert {name: again[name] for name in refs} == refs
    assert again["cleo"] not in refs.values()
    assert store.rows["home", "ana"].user_ref == refs["ana"]


def test_somebody_the_table_has_lost_is_not_made_anew_while_the_log_cannot_be_read() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    asyncio.run(house(store, publisher).refs("home", ["ana"]))
    store.rows.clear()
    publisher.away = True
    with pytest.raises(BrokerAway):
        asyncio.run(house(store, publisher).refs("home", ["ana"]))
    assert store.rows == {}


def test_a_table_restored_to_before_a_link_is_brought_up_to_the_log() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    refs = asyncio.run(house(store, publisher).refs("home", ["ana", "ben"]))
    before = dict(store.rows)
    link(store, publisher, "ana", refs["ben"])
    store.rows = before
    assert asyncio.run(house(store, publisher).refs("home", ["ana"])) == {"ana": refs["ben"]}
    assert store.rows["home", "ana"] == Person(refs["ben"], True)


def test_a_door_that_has_read_less_than_the_table_knows_does_not_undo_a_link() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    refs = asyncio.run(house(store, publisher).refs("home", ["ana", "ben"]))
    identities = FakeIdentities(publisher)
    identities.behind = {identity_key(HASH_KEY, "home", name): ref for name, ref in refs.items()}
    link(store, publisher, "ana", refs["ben"])
    assert asyncio.run(house(store, publisher, identities=identities).refs("home", ["ana"])) == {"ana": refs["ben"]}
    assert store.rows["home", "ana"] == Person(refs["ben"], True)


def test_asking_for_the_known_makes_nobody() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    people = house(store, publisher)
    refs = asyncio.run(people.refs("home", ["ana"]))
    publisher.records.clear()
    assert asyncio.run(people.known("home", ["ana", "ben"])) == refs
    assert set(store.rows) == {("home", "ana")}
    assert publisher.records == []


NOW_MS = 1_796_069_700_000


def mark(publisher: FakePublisher, key: bytes, since_ms: int = NOW_MS) -> None:
    """As ``playhead forget`` writes it."""
    publisher.records.append(Record(IDENTITY_USERS.name, partition_of(key), key, marker_value(since_ms)))


def test_an_account_is_forgotten_since_what_the_log_or_the_table_says_and_a_user_ref_for_ever() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    people = house(store, publisher)
    mark(publisher, marker_of_account(HASH_KEY, identity_key(HASH_KEY, "home", "ana")))
    mark(publisher, marker_of_person(HASH_KEY, "c" * 32))
    store.gone = {identity_key(HASH_KEY, "home", "ben").decode(): NOW_MS - 1, "d" * 32: NOW_MS}
    names = ["ana", "ben", "eve", "c" * 32, "d" * 32]
    wanted = {"ana": NOW_MS, "ben": NOW_MS - 1, "c" * 32: FOR_EVER, "d" * 32: FOR_EVER}
    assert asyncio.run(people.forgotten("home", names)) == wanted
    # Of one source: what another calls the same is somebody else.
    assert asyncio.run(people.forgotten("jelly", ["ana", "ben"])) == {}
    store.database.away = True
    assert asyncio.run(house(store, publisher).forgotten("home", names)) == {"ana": NOW_MS, "c" * 32: FOR_EVER}


def test_who_was_forgotten_is_somebody_new_even_for_a_door_that_remembers_and_a_table_that_was_restored() -> None:
    store, publisher = FakePeople({"home"}), FakePublisher()
    people = house(store, publisher)
    [old] = asyncio.run(people.refs("home", ["ana"])).values()
    key = identity_key(HASH_KEY, "home", "ana")
    mark(publisher, marker_of_person(HASH_KEY, old))
    publisher.records.append(Record(IDENTITY_USERS.name, partition_of(key), key, b""))
    # The table still has her, as one restored to before that has.
    assert store.rows["home", "ana"] == Person(old, True)
    [new] = asyncio.run(people.refs("home", ["ana"])).values()
    assert new != old
    assert store.rows["home", "ana"] == Person(new, True)
    store.database.away = True
    assert people.remembered("home", ["ana"]) == {"ana": new}

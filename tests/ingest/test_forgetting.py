"""What the log is told of people who were forgotten, and what is heard from it."""

from __future__ import annotations

from schemas.events import UserForgotten
from schemas.ids import SchemaIds
from schemas.placement import partition_of
from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.ingest.forgetting import account_hash, heard, telling
from streams.ingest.people import identity_key, marked_since, marker_of_account, marker_of_person, marker_value
from streams.runtime.contract import Contract
from streams.runtime.forgetting import Kept
from streams.runtime.people import Account
from tests.ingest.fakes import HASH_KEY

CONTRACT = Contract(SchemaIds(), registry=None)
REF = "a" * 32
ACCOUNT = account_hash(HASH_KEY, "home", "ana")
PERSON = marker_of_person(HASH_KEY, REF)
SINCE = marker_of_account(HASH_KEY, ACCOUNT.encode())
KEPT = Kept({REF: 5}, {ACCOUNT: 7})


def test_a_log_that_knows_nothing_is_told_all_and_that_nowhere_by_name() -> None:
    news = telling(KEPT, {ACCOUNT.encode(): REF.encode()}, HASH_KEY, CONTRACT, 9, "c")
    asked = [one for one in news.records if one.topic == PLAYBACK_REPORTED.name]
    [event] = [CONTRACT.decode(one.value) for one in asked]
    assert isinstance(event, UserForgotten)
    assert (event.user_ref, event.correlation_id, event.received_at, event.cause) == (REF, "c", 9, None)
    assert (asked[0].key, asked[0].partition) == (REF.encode(), partition_of(REF.encode()))
    said = {one.key: one.value for one in news.records if one.topic == IDENTITY_USERS.name}
    assert said == {PERSON: marker_value(5), SINCE: marker_value(7), ACCOUNT.encode(): b""}
    assert all(one.partition == partition_of(one.key) for one in news.records)
    assert news.people == (REF,)
    assert not any(b"ana" in one.key + one.value for one in news.records)


def test_a_log_that_knows_all_is_told_nothing_but_what_is_asked_for_again() -> None:
    written = {PERSON: marker_value(5), SINCE: marker_value(7)}
    assert telling(KEPT, written, HASH_KEY, CONTRACT, 9, "c").records == ()
    again = telling(KEPT, written, HASH_KEY, CONTRACT, 9, "c", again=[REF])
    assert again.people == (REF,)
    assert [one.topic for one in again.records] == [PLAYBACK_REPORTED.name, IDENTITY_USERS.name]


def test_an_account_that_is_somebody_new_since_keeps_who_they_are() -> None:
    written = {PERSON: marker_value(5), SINCE: marker_value(6), ACCOUNT.encode(): b"b" * 32}
    [record] = telling(KEPT, written, HASH_KEY, CONTRACT, 9, "c").records
    assert (record.key, record.value) == (SINCE, marker_value(7))


def test_of_a_restored_table_those_are_heard_of_whom_the_log_says_so_with_who_they_were_before_a_link() -> None:
    ana = Account("home", "ana", "b" * 32, REF)
    ben = Account("home", "ben", "c" * 32, None)
    old = Account("jelly", "ana", REF, None)
    found = heard([ana, ben, old], {PERSON: marker_value(5)}, HASH_KEY)
    assert (found.user_refs, found.accounts) == ((REF,), (old,))


def test_what_is_no_marker_is_none() -> None:
    assert marked_since(marker_value(12)) == 12
    for value in (None, b"", b"a" * 32, b"forgotten:", b"forgotten:x", "forgotten:-1"):
        assert marked_since(value) is None
    assert identity_key(HASH_KEY, "home", "ana").decode() == ACCOUNT

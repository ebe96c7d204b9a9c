"""The door itself: order of steps, limits, and what is filled in."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import Counter

from schemas.errors import InvalidValue
from schemas.events import PlaybackReported
from schemas.limits import DOOR_RECORD_BYTES_MAX
from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.ingest.door import Receipt
from streams.ingest.hooks import ParsedReport, Rejected
from streams.ingest.media import Facts
from streams.runtime import metrics
from streams.runtime.contract import Contract
from streams.runtime.publisher import BrokerAway
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import World

HOME = Principal("t", "home", frozenset({Scope.REPORT}))
REPORT = ParsedReport(kind="progress", origin="webhook", upstream_user="u1", upstream_media="m1", position_ms=5)


def take(world: World, *results: ParsedReport | Rejected, principal: Principal = HOME, **more: Any) -> Receipt:
    return asyncio.run(world.door.take(principal, results, format="jellyfin", correlation_id="c", **more))


def value(counter: Counter, *labels: str) -> float:
    return float(counter.labels(*labels)._value.get())


def test_the_failpoints_stand_where_they_say() -> None:
    seen: list[tuple[str, int]] = []
    world = World(failpoint=lambda point: seen.append((point, len(world.reported()))))
    take(world, REPORT)
    assert seen == [("ingest.validated", 0), ("ingest.produced", 0), ("ingest.acked", 1)]


def test_an_unacknowledged_report_never_gets_past_the_door() -> None:
    seen: list[str] = []
    world = World(failpoint=seen.append)
    take(world, REPORT)
    accepted = value(metrics.REPORTS_ACCEPTED, "jellyfin")
    seen.clear()
    world.publisher.away = True
    with pytest.raises(BrokerAway):
        take(world, REPORT)
    assert "ingest.acked" not in seen
    assert value(metrics.REPORTS_ACCEPTED, "jellyfin") == accepted


def test_a_person_is_in_identity_users_before_the_first_report_of_them() -> None:
    world = World()
    take(world, REPORT)
    assert [record.topic for record in world.publisher.records] == [IDENTITY_USERS.name, PLAYBACK_REPORTED.name]


def test_nothing_upstream_knows_of_a_person_is_in_any_record() -> None:
    world = World()
    take(world, replace(REPORT, upstream_user="ana.nym@example.org"))
    for record in world.publisher.records:
        assert b"ana.nym" not in record.key + record.value


def test_a_report_over_the_doors_record_limit_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    encode = Contract.encode

    def swollen(self: Contract, event: PlaybackReported) -> bytes:
        padding = DOOR_RECORD_BYTES_MAX if event.event_id == "big" else 0
        return encode(self, event) + bytes(padding)

    monkeypatch.setattr(Contract, "encode", swollen)
    receipt = take(world, replace(REPORT, event_id="big"), replace(REPORT, event_id="small"))
    assert receipt.event_ids == ("small",)
    assert [(r.index, r.reason) for r in receipt.rejected] == [(0, "too_large")]


def test_what_the_rules_would_reject_is_rejected_at_the_door() -> None:
    """A parser that lets something through does not make a dead letter of it."""
    world = World()
    bad = [
        replace(REPORT, sequence=2**70),
        replace(REPORT, position_ms=-1),
        replace(REPORT, position_ms=None),
        replace(REPORT, upstream_user="nul\0"),
        replace(REPORT, upstream_user="lone\ud800"),
        replace(REPORT, upstream_media="x" * 257),
        replace(REPORT, upstream_user="  "),
    ]
    receipt = take(world, *bad, REPORT)
    assert receipt.accepted == 1
    assert [r.index for r in receipt.rejected] == list(range(len(bad)))
    assert all(str(2**70) not in r.detail for r in receipt.rejected)
    assert len(world.people.rows) == 1


def test_a_value_the_log_cannot_hold_is_refused_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    encode = Contract.encode

    def picky(self: Contract, event: PlaybackReported) -> bytes:
        if event.event_id == "odd":
            raise InvalidValue("canary")
        return encode(self, event)

    monkeypatch.setattr(Contract, "encode", picky)
    receipt = take(world, replace(REPORT, event_id="odd"), replace(REPORT, event_id="fine"))
    assert receipt.event_ids == ("fine",)
    assert [(r.index, r.reason) for r in receipt.rejected] == [(0, "invalid_value")]
    assert "canary" not in receipt.rejected[0].detail


def test_a_parsers_rejections_keep_their_places() -> None:
    world = World()
    receipt = take(world, Rejected("missing_media", "…"), REPORT, Rejected("bad_time", "…"))
    assert [(r.index, r.reason) for r in receipt.rejected] == [(0, "missing_media"), (2, "bad_time")]
    assert receipt.accepted == 1


def test_order_within_a_request_is_order_in_the_log() -> None:
    world = World()
    asyncio.run(world.people.add("home", {"u2": "2" * 32}))
    reports = [replace(REPORT, event_id=str(n), upstream_user=f"u{n % 2 + 1}") for n in range(20)]
    assert take(world, *reports).event_ids == tuple(str(n) for n in range(20))
    assert [event.event_id for event in world.reported()] == [str(n) for n in range(20)]


def test_a_token_bound_to_a_person_fills_in_who_is_meant() -> None:
    world = World()
    bound = Principal("t", "home", frozenset({Scope.REPORT}), "b" * 32)
    nobody = replace(REPORT, upstream_user=None)
    assert take(world, nobody, principal=bound).accepted == 1
    assert world.reported()[0].user_ref == "b" * 32
    assert [r.reason for r in take(world, nobody).rejected] == ["missing_user"]


def test_what_is_known_of_an_item_fills_only_what_the_report_leaves_out() -> None:
    class Known:
        async def of(self, source_id: str, media_ids: Collection[str]) -> Mapping[str, Facts]:
            return {one: Facts("audiobook", 36_000_000) for one in media_ids}

    world = World(facts=Known())
    take(world, REPORT, replace(REPORT, media_kind="video", duration_ms=7))
    assert [(e.media_kind, e.duration_ms) for e in world.reported()] == [("audiobook", 36_000_000), ("video", 7)]


def test_a_source_deleted_meanwhile_is_a_rejection() -> None:
    world = World()
    world.people.sources.discard("home")
    assert [r.reason for r in take(world, REPORT).rejected] == ["unknown_source"]


def test_two_doors_give_one_person_one_user_ref_and_one_repeated_report_one_event_id() -> None:
    world = World()
    report = replace(REPORT, occurred_at=1_796_069_700_000)

    async def both() -> None:
        doors = [world.door, world.another_door()]
        await asyncio.gather(
            *(door.take(HOME, [report], format="jellyfin", correlation_id=str(n)) for n, door in enumerate(doors))
        )

    asyncio.run(both())
    first, second = world.reported()
    assert (first.user_ref, first.event_id) == (second.user_ref, second.event_id)

"""The door and its spool: what is accepted while something is away, and how it reaches the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from schemas.library import ItemRemovalObserved
from schemas.limits import DOOR_RECORD_BYTES_MAX
from schemas.topics import LIBRARY_OBSERVED
from streams.ingest.door import Receipt
from streams.ingest.drain import PER_USER_MAX, Drain
from streams.ingest.hooks import Listen, Observation, ParsedReport
from streams.runtime.contract import Contract
from streams.runtime.database import DatabaseAway
from streams.runtime.failpoints import disarmed
from streams.runtime.publisher import BrokerAway, Record
from streams.runtime.spool import Entry, Spool, SpoolAway
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import World

T = TypeVar("T")
HOME = Principal("t", "home", frozenset({Scope.REPORT}))
REPORT = ParsedReport(kind="progress", origin="webhook", upstream_user="ana", upstream_media="m1", position_ms=5)


def scene(
    root: Path,
    act: Callable[[World], Awaitable[T]],
    *,
    records_max: int = 100_000,
    failpoint: Callable[[str], None] = disarmed,
) -> T:
    async def inside() -> T:
        async with Spool(root, bytes_max=2**28, records_max=records_max) as spool:
            return await act(World(spool=spool, failpoint=failpoint))

    return asyncio.run(inside())


async def take(world: World, *reports: ParsedReport, principal: Principal = HOME) -> Receipt:
    return await world.door.take(principal, reports, format="jellyfin", correlation_id="c")


def numbered(*numbers: int, user: str = "ana") -> list[ParsedReport]:
    return [replace(REPORT, event_id=f"e{n}", upstream_user=user) for n in numbers]


async def empty(world: World, drain: Drain | None = None) -> None:
    drain = drain or world.another_drain(world.door)
    while await drain.step():
        pass


def held(world: World) -> int:
    assert world.spool is not None
    return world.spool.records


def test_with_kafka_away_reports_are_accepted_and_reach_the_log_in_order_as_they_were_received(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0))
        world.publisher.away = True
        received = world.clock.now_ms()
        assert (await take(world, *numbered(1, 2))).event_ids == ("e1", "e2")
        world.clock.advance(60_000)
        assert (await take(world, *numbered(3))).accepted == 1
        assert [event.event_id for event in world.reported()] == ["e0"]
        with pytest.raises(BrokerAway):
            await empty(world)
        world.publisher.away = False
        await empty(world)
        events = world.reported()
        assert [event.event_id for event in events] == ["e0", "e1", "e2", "e3"]
        assert [event.received_at for event in events] == [received] * 3 + [received + 60_000]
        assert len({(event.user_ref, event.media_id, event.correlation_id) for event in events}) == 1
        assert held(world) == 0

    scene(tmp_path, act)


def test_an_unknown_person_while_the_database_is_away_is_spooled_and_the_known_pass(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0))
        world.database.away = True
        receipt = await take(world, *numbered(1), *numbered(2, user="ben"), *numbered(3))
        assert receipt.event_ids == ("e1", "e2", "e3")
        assert [event.event_id for event in world.reported()] == ["e0", "e1", "e3"]
        with pytest.raises(DatabaseAway):
            await empty(world)
        world.database.away = False
        await empty(world)
        assert [event.event_id for event in world.reported()] == ["e0", "e1", "e3", "e2"]
        assert len({event.user_ref for event in world.reported()}) == 2
        # A person of the spool, too, is in identity.users before the first report of them.
        assert [record.value.decode() for record in world.identities()] == [
            world.people.rows["home", name].user_ref for name in ("ana", "ben")
        ]

    scene(tmp_path, act)


def test_what_comes_later_queues_behind_what_waits_of_the_same_person_only(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0), *numbered(1, user="ben"))
        world.publisher.away = True
        await take(world, *numbered(2))
        world.publisher.away = False
        await take(world, *numbered(3), *numbered(4, user="ben"))
        assert [event.event_id for event in world.reported()] == ["e0", "e1", "e4"]
        await empty(world)
        await take(world, *numbered(5))
        assert [event.event_id for event in world.reported()] == ["e0", "e1", "e4", "e2", "e3", "e5"]

    scene(tmp_path, act)


def test_what_can_not_be_told_yet_holds_back_what_came_after_it(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        await take(world, *numbered(0))
        world.publisher.away = True
        await take(world, *numbered(1))
        world.database.away = True
        await take(world, *numbered(2, user="ben"), *numbered(3))
        world.publisher.away = False
        with pytest.raises(DatabaseAway):
            await empty(world)
        assert [event.event_id for event in world.reported()] == ["e0", "e1"]
        world.database.away = False
        await empty(world)
        assert [event.event_id for event in world.reported()] == ["e0", "e1", "e2", "e3"]

    scene(tmp_path, act)


def test_a_derived_event_id_is_the_same_spooled_or_not_and_for_any_door(tmp_path: Path) -> None:
    timed = replace(REPORT, occurred_at=1_796_069_700_000, upstream_user="new")

    async def act(world: World) -> None:
        world.database.away = True
        spooled = await take(world, timed)
        world.database.away = False
        direct = await World().door.take(HOME, [timed], format="jellyfin", correlation_id="c")
        await empty(world)
        assert spooled.event_ids == direct.event_ids == (world.reported()[0].event_id,)
        assert len(spooled.event_ids[0]) == 32

    scene(tmp_path, act)


def test_an_event_id_can_not_be_tried_for_names_without_the_key(tmp_path: Path) -> None:
    timed = replace(REPORT, occurred_at=1_796_069_700_000)

    async def act(world: World) -> None:
        one, other = World(), World()
        other.door.identify.people._hash_key = b"another key of sixteen bytes"
        ids = {(await w.door.take(HOME, [timed], format="x", correlation_id="c")).event_ids for w in (one, other)}
        assert len(ids) == 2

    scene(tmp_path, act)


def test_bad_reports_are_refused_whether_or_not_anything_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Contract.encode

    def swollen(self: Contract, event: object) -> bytes:
        padding = DOOR_RECORD_BYTES_MAX if getattr(event, "event_id", "") == "big" else 0
        return encode(self, event) + bytes(padding)  # type: ignore[arg-type]

    monkeypatch.setattr(Contract, "encode", swollen)

    async def act(world: World) -> None:
        world.publisher.away = world.database.away = True
        bad = [replace(REPORT, position_ms=-1), replace(REPORT, event_id="big"), replace(REPORT, upstream_user="\0")]
        receipt = await take(world, *bad, REPORT)
        assert [(one.index, one.reason) for one in receipt.rejected] == [
            (0, "invalid_position"),
            (1, "too_large"),
            (2, "invalid_text"),
        ]
        assert (receipt.accepted, held(world)) == (1, 1)

    scene(tmp_path, act)


def test_whether_a_token_may_speak_for_somebody_is_never_left_for_later(tmp_path: Path) -> None:
    bound = replace(HOME, user_ref="b" * 32)

    async def act(world: World) -> None:
        world.database.away = True
        with pytest.raises(DatabaseAway):
            await take(world, REPORT, principal=bound)
        assert held(world) == 0
        nobody_named = replace(REPORT, upstream_user=None)
        assert (await take(world, nobody_named, principal=bound)).accepted == 1
        assert world.reported()[0].user_ref == "b" * 32

    scene(tmp_path, act)


def test_a_full_spool_is_unavailable_and_nothing_is_accepted(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        world.publisher.away = True
        await take(world, *numbered(1, 2))
        with pytest.raises(SpoolAway):
            await take(world, *numbered(3))
        assert held(world) == 2

    scene(tmp_path, act, records_max=2)


def test_the_answer_comes_after_the_disk_and_not_before(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    worlds: list[World] = []

    def failpoint(point: str) -> None:
        seen.append((point, held(worlds[0])))

    async def act(world: World) -> None:
        worlds.append(world)
        await take(world, REPORT)
        seen.clear()
        world.publisher.away = True
        await take(world, REPORT)

    scene(tmp_path, act, failpoint=failpoint)
    assert seen == [("ingest.validated", 0), ("ingest.produced", 0), ("ingest.spooled", 1), ("ingest.acked", 1)]


def test_killed_between_sending_and_deleting_the_same_event_ids_are_sent_again(tmp_path: Path) -> None:
    class Killed(BaseException):
        pass

    def kill(point: str) -> None:
        raise Killed

    async def first(world: World) -> list[str]:
        world.publisher.away = True
        await take(world, *(replace(REPORT, upstream_media=f"m{n}") for n in range(3)))
        world.publisher.away = False
        with suppress(Killed):
            await empty(world, world.another_drain(world.door, failpoint=kill))
        return [event.event_id for event in world.reported()]

    async def second(world: World) -> list[str]:
        await empty(world)
        return [event.event_id for event in world.reported()]

    sent = scene(tmp_path, first)
    assert len(set(sent)) == 3
    assert scene(tmp_path, second) == sent


def test_a_piece_sent_twice_never_exceeds_what_the_agents_remember(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        world.publisher.away = True
        listens = [
            Listen(kind="finish", origin="import", upstream_user="ana", upstream_media="m", occurred_at=n * 10**9)
            for n in range(950, 1_000)
        ]
        await take(world, *listens)
        world.publisher.away = False
        drain = world.another_drain(world.door)
        before = 0
        while await drain.step():
            assert len(world.reported()) - before <= 64
            before = len(world.reported())
        assert before == 150
        assert PER_USER_MAX * 3 <= 64

    scene(tmp_path, act)


def test_reports_of_a_source_that_is_gone_wait_and_the_others_go_on(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        world.database.away = True
        await take(world, *numbered(1, user="new"))
        await take(world, *numbered(2, user="newer"), principal=replace(HOME, source_id="jelly"))
        world.database.away = False
        world.people.sources.discard("home")  # a database restored to before the source was made
        await empty(world)
        assert [event.event_id for event in world.reported()] == ["e2"]
        assert held(world) == 1
        world.people.sources.add("home")
        assert world.spool is not None
        await world.spool.release()
        await empty(world)
        assert [event.event_id for event in world.reported()] == ["e2", "e1"]

    scene(tmp_path, act)


def test_a_disk_that_refuses_to_delete_does_not_make_the_drain_send_again(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        world.publisher.away = True
        await take(world, *numbered(1))
        world.publisher.away = False
        assert world.spool is not None
        done = world.spool.done
        refuse = 2

        async def refusing(kept: Sequence[object]) -> None:
            nonlocal refuse
            refuse -= 1
            if refuse >= 0:
                raise SpoolAway("full")
            await done(kept)  # type: ignore[arg-type]

        world.spool.done = refusing  # type: ignore[assignment, method-assign]
        drain = world.another_drain(world.door)
        for _ in range(2):
            with pytest.raises(SpoolAway):
                await drain.step()
        await empty(world, drain)
        assert [event.event_id for event in world.reported()] == ["e1"]
        assert held(world) == 0

    scene(tmp_path, act)


def test_the_drain_runs_by_itself_and_survives_what_nobody_expected(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        world.publisher.away = True
        await take(world, *numbered(1, 2))
        world.publisher.away = False
        arrived = asyncio.Event()
        bursts = 1

        def burst(records: Sequence[Record]) -> None:
            nonlocal bursts
            bursts -= 1
            if bursts >= 0:
                raise RuntimeError("a bug")
            arrived.set()

        world.publisher.on_publish = burst
        task = asyncio.create_task(world.another_drain(world.door).run())
        await asyncio.wait_for(arrived.wait(), 20)
        while held(world):
            await asyncio.sleep(0.01)
        task.cancel()
        assert [event.event_id for event in world.reported()] == ["e1", "e2"]

    scene(tmp_path, act)


def test_a_spooled_report_no_build_can_read_is_set_aside(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        assert world.spool is not None
        for data in (b"", b"{}", b'{"version": 99}', b"[1]", b'"x"'):
            await world.spool.put([Entry("home", "ana", data)])
        world.publisher.away = True
        await take(world, *numbered(1))
        world.publisher.away = False
        await empty(world)
        assert [event.event_id for event in world.reported()] == ["e1"]
        assert held(world) == 5

    scene(tmp_path, act)


def test_over_http_a_spooled_report_is_202_and_a_full_spool_503_with_retry_after(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        world.publisher.away = True
        body = {"user": "ana", "media": "m", "kind": "mark_played"}
        first = await world.post("/v1/playback", body, token=world.report)
        assert (first.status_code, first.json()["accepted"]) == (202, 1)
        second = await world.post("/v1/playback", body, token=world.report)
        assert (second.status_code, second.json()["dependency"]) == (503, "spool")
        assert int(second.headers["Retry-After"]) >= 1

    scene(tmp_path, act, records_max=1)


def test_news_of_the_library_waits_in_the_spool_and_reaches_the_log_in_order(tmp_path: Path) -> None:
    jelly = Principal("t", "jelly", frozenset({Scope.REPORT}))

    async def act(world: World) -> None:
        world.publisher.away = True
        news = [Observation(change="removed", upstream_media=f"m{number}") for number in range(3)]
        assert (await world.door.tell(jelly, news, correlation_id="c")).taken == 3
        await take(world, *numbered(1))
        assert held(world) == 4
        with pytest.raises(BrokerAway):
            await empty(world)
        world.publisher.away = False
        await empty(world)
        seen = [world.codec.decode(one.value) for one in world.publisher.of(LIBRARY_OBSERVED.name)]
        assert [one.upstream_id for one in seen if isinstance(one, ItemRemovalObserved)] == ["m0", "m1", "m2"]
        assert [event.event_id for event in world.reported()] == ["e1"]
        assert held(world) == 0

    scene(tmp_path, act)


def test_news_that_no_build_wrote_so_is_set_aside(tmp_path: Path) -> None:
    async def act(world: World) -> None:
        assert world.spool is not None
        await world.spool.put([Entry("jelly", "", b'{"version":1,"topic":"elsewhere"}')])
        await empty(world)
        assert world.publisher.records == []
        assert held(world) == 1

    scene(tmp_path, act)

"""Whether a listener may still listen was asked when nothing had come for a while: while there was always news a
revoked token went on hearing of everything."""

from __future__ import annotations

import asyncio

from projections.api.change_hub import Change, ChangeHub, Listener
from projections.api.changes import HEARTBEAT_S, Sight, events
from projections.api.names import Names
from schemas.events import CacheInvalidated
from schemas.ids import SchemaIds
from streams.runtime.cache import Cache
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.settings import KafkaSettings
from streams.runtime.tokens import Principal, Scope
from tests.ingest.fakes import FakeAliases, FakePeople

ANA = "a" * 32
CALLER = Principal("t-ana", "home", frozenset({Scope.READ}), ANA)


def change(offset: int) -> Change:
    event = CacheInvalidated(
        event_id="e", correlation_id="c", source_id="home", occurred_at=None, received_at=0,
        cache_key=f"continue:{ANA}", model_epoch=1, log_epoch=1, partition=0, version=offset, reason="",
    )  # fmt: skip
    return Change(0, offset, event)


def test_given_news_all_the_time_then_a_revoked_token_is_let_go_at_the_next_heartbeat() -> None:
    async def play() -> tuple[list[bytes], int]:
        clock = FakeClock()
        asked = 0
        revoked = False

        async def allowed() -> bool:
            nonlocal asked
            asked += 1
            return not revoked

        hub = ChangeHub(KafkaSettings(), Contract(SchemaIds(), registry=None), Cache(None))
        listener = Listener(lambda _: True, "topic", {0: 0}, [change(offset) for offset in range(3)])
        for offset in range(3, 10):
            listener.put(change(offset))
        sight = Sight(Names(FakePeople(set()), FakeAliases()), clock)
        heard: list[bytes] = []
        async for part in events(hub, listener, sight, CALLER, allowed, clock):
            heard.append(part)
            # Two pieces of news in each heartbeat; the token counts for three of them.
            clock.advance(int(HEARTBEAT_S * 500))
            revoked = len(heard) > 6
        return heard, asked

    heard, asked = asyncio.run(play())
    assert len(heard) == 8
    assert asked == 4

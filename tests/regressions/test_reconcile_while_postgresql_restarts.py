"""Reconcile while PostgreSQL is away: to be tried again, by a command and by a task, and no crash of who was at it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from projections.entry import PROJECTIONS
from projections.models.playback import PlaybackProjection
from projections.rebuild.running import Rebuild
from projections.reconcile import running
from projections.reconcile.findings import Scope
from projections.reconcile.running import Chosen, reconcile
from schemas.ids import SchemaIds
from streams.effects.retry import Again, RetryPolicy, after
from streams.runtime.contract import Contract
from streams.runtime.errors import Unavailable
from streams.runtime.settings import CacheSettings, KafkaSettings, PostgresSettings, Settings

AWAY = Settings(
    kafka=KafkaSettings(bootstrap="127.0.0.1:1"),
    postgres=PostgresSettings(host="127.0.0.1", port=1, owner_password=SecretStr("test-owner")),
    cache=CacheSettings(url=SecretStr("valkey://127.0.0.1:1/0")),
)


@pytest.mark.parametrize("scope", Scope)
def test_a_comparison_is_tried_again(scope: Scope, monkeypatch: pytest.MonkeyPatch) -> None:
    def asks_the_rows(*_: Any, **__: Any) -> None:
        psycopg.connect(**AWAY.postgres.conninfo("owner"))

    monkeypatch.setattr(running, "check_cache", asks_the_rows)
    with pytest.raises(Unavailable, match="PostgreSQL") as raised:
        reconcile(AWAY, Contract(SchemaIds(), registry=None), Chosen((scope,), "shelf"), PROJECTIONS)
    assert after(raised.value, 1, RetryPolicy(), max) == Again(2.0)


def test_so_is_what_mends_rows() -> None:
    contract = Contract(SchemaIds(), registry=None)
    with pytest.raises(Unavailable, match="PostgreSQL"), Rebuild(PlaybackProjection(), AWAY, contract):
        pass

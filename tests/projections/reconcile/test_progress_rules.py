"""What a server says of a person's playback, against ours: what is drift, of which cause, and what is none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from projections.reconcile import progress
from projections.reconcile.findings import Cause, Findings, Scope
from projections.reconcile.progress import FAILURES_MAX, _item, _judge, _told, check_progress
from streams.domain.forwarding import Has
from streams.ingest.pollers.statements import EventIds
from streams.upstream.errors import UpstreamAway

NOON = 1_796_000_000_000
FORWARDED: dict[str, Any] = {"place": "at", "w_position": 600_000, "w_time": NOON, "sent": [600_000]}


def listed(**changes: Any) -> list[Any]:
    """A row of what is compared."""
    row = {
        "user": "u", "account": "ana", "media": "m", "upstream": "1", "media_kind": "video", "duration": 6_000_000,
        "position": 600_000, "phase": "stopped", "played": False, "event_time": NOON, "log_epoch": 1, "version": 1,
        "place": None, "w_position": None, "w_duration": None, "w_time": None, "sent": [], "undone": False,
        "dead": False, "waits": False,
    }  # fmt: skip
    assert not changes.keys() - row.keys()
    return list((row | changes).values())


def judged(has: Has, *, is_told: bool = True, **changes: Any) -> tuple[bool, dict[Cause, int], dict[str, int]]:
    """Whether it is the server's own, what was found, and what is settled."""
    findings = Findings()
    own = _judge("attic", _item(listed(**changes)), has, is_told, findings)
    return own, {cause: one.count for cause, one in findings.causes()}, findings.settled


def test_what_is_the_same_within_a_second_is_in_order() -> None:
    assert judged(Has(601_000, at=NOON)) == (False, {}, {})
    assert judged(Has(0, played=True, at=NOON), phase="finished", played=True, position=0) == (False, {}, {})


def test_a_server_that_went_on_is_believed_to_have_something_of_its_own() -> None:
    own, found, _ = judged(Has(900_000, at=NOON + 60_000))
    assert (own, found) == (True, {})
    own, found, _ = judged(Has(900_000, at=NOON + 60_000), **FORWARDED)
    assert (own, found) == (True, {})


def test_a_server_that_lost_what_it_was_told_is_to_be_told_again() -> None:
    assert judged(Has(0), **FORWARDED)[1] == {Cause.FORWARD_LOST: 1}
    assert judged(Has(300_000, at=NOON - 60_000), **FORWARDED)[1] == {Cause.FORWARD_LOST: 1}


def test_a_row_of_its_own_that_heard_no_more_than_an_echo_does_not_hide_what_a_server_lost() -> None:
    echo: dict[str, Any] = {"position": 0, "phase": "idle", "event_time": 0}
    assert judged(Has(0), **FORWARDED, **echo)[1] == {Cause.FORWARD_LOST: 1}
    assert judged(Has(600_000, at=NOON), **FORWARDED, **echo) == (False, {}, {})


def test_a_server_that_is_about_to_be_told_or_refused_it_is_no_drift() -> None:
    assert judged(Has(0), **FORWARDED, undone=True, waits=True)[1] == {}
    assert judged(Has(0), **FORWARDED, dead=True)[1] == {}


def test_a_server_that_nobody_wants_told_has_nothing_to_lose() -> None:
    assert judged(Has(0), is_told=False, **FORWARDED)[:2] == (False, {})
    assert judged(Has(0))[:2] == (False, {})


def test_the_same_word_of_a_server_is_one_report_and_another_word_another() -> None:
    ids = EventIds(b"k" * 32, "attic")
    row: list[Any] = [
        "u",
        "ana",
        "m",
        "1",
        "video",
        6_000_000,
        1,
        "stopped",
        False,
        NOON,
        1,
        1,
        *[None] * 4,
        [],
        False,
        False,
        0,
    ]
    item = _item(row)
    has = Has(900_000, at=NOON)
    assert _told(item, has, ids) == _told(item, has, ids)
    assert _told(item, has, ids).event_id != _told(item, replace(has, position_ms=901_000), ids).event_id
    ended = _told(item, Has(0, played=True, at=NOON), ids)
    assert (ended.kind, ended.played, ended.origin, ended.occurred_at) == ("finish", True, "reconcile", NOON)


def compared(monkeypatch: pytest.MonkeyPatch, answers: list[Has | Exception | None]) -> Findings:
    """What comes of a server that answers so for one item after the other."""
    left = iter(answers)

    def has(*_: Any) -> Has | None:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    rows = SimpleNamespace(fetchone=lambda: (True,), fetchall=lambda: [listed() for _ in answers])

    @contextmanager
    def connect(_: Any) -> Iterator[Any]:
        yield SimpleNamespace(execute=lambda *_: rows)

    monkeypatch.setattr(progress, "connect", connect)
    monkeypatch.setattr(progress, "upstream_entry", lambda *_: SimpleNamespace(source_id="attic", kind="jellyfin"))
    monkeypatch.setattr(progress, "_has", has)
    findings, settings = Findings(), SimpleNamespace(identity=SimpleNamespace(key=lambda: b"k" * 32))
    sessions: Any = None
    check_progress(settings, "attic", sessions, findings, stop=threading.Event())  # type: ignore[arg-type]
    return findings


def test_every_item_the_server_did_not_answer_for_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    same, away = Has(600_000, at=NOON), UpstreamAway("away")
    found = compared(monkeypatch, [same, away, None])
    assert found.looked_at == {Scope.PROGRESS: 1}
    assert found.passed_over == [
        (Scope.PROGRESS, "attic", "1 of 3 items: nobody's secret is known there who may ask for the person"),
        (Scope.PROGRESS, "attic", "1 of 3 items: the server does not answer: UpstreamAway"),
    ]
    assert not compared(monkeypatch, [away]).compared
    [(_, _, why)] = compared(monkeypatch, [away] * (FAILURES_MAX + 3)).passed_over
    assert why.startswith("8 of 8 items")
    assert compared(monkeypatch, [same]).passed_over == []

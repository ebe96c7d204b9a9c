"""The read API over real read models."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import psycopg
import pytest

from projections.api import Names, ReadModels, api_router, router
from projections.base import Invalidation, Record
from projections.models.playback import Decided, PlaybackProjection
from schemas.events import PlaybackDecided, SourcePosition
from schemas.ids import SchemaIds
from streams.domain.identity import media_id
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.database import Database
from streams.runtime.people import Person
from streams.runtime.settings import Settings
from streams.runtime.tokens import Authenticator, Principal, Scope, hash_of
from streams.runtime.web import Guard, build_app
from tests.ingest.fakes import FakeAliases, FakePeople, FakeTokens, token
from tests.projections.decisions import NOW_MS, Placed, decision, partition_for, placed

pytestmark = pytest.mark.services

ANA, BO, CYD = "a" * 32, "b" * 32, "c" * 32
FILM, SONG = media_id("home", "film"), media_id("home", "song")
PATIENCE_S = 30.0
CONTRACT = Contract(SchemaIds(), registry=None)
TOKENS = {
    "home": Principal("t-home", "home", frozenset({Scope.READ})),
    "flat": Principal("t-flat", "flat", frozenset({Scope.READ})),
    "ana": Principal("t-ana", "home", frozenset({Scope.READ}), ANA),
    "operator": Principal("t-op", None, frozenset({Scope.OPERATE})),
    "reporter": Principal("t-rep", "home", frozenset({Scope.REPORT})),
}
LETTER = dict(zip(TOKENS, "abcde", strict=True))


class House:
    """A read API, and a projector's hand in the database behind it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: list[PlaybackDecided] = []
        self.invalidated: Sequence[Invalidation] = ()
        """By the last decision."""
        tokens = FakeTokens(rows={hash_of(token(LETTER[name])): who for name, who in TOKENS.items()})
        people = FakePeople({"home", "flat"})
        people.rows = {
            ("home", "ana"): Person(ANA, True),
            ("home", "bo"): Person(BO, True),
            ("home", "idle"): Person("d" * 32, True),
            ("flat", "cyd"): Person(CYD, True),
        }
        self.aliases = FakeAliases()
        self._names = Names(people, self.aliases)
        self._guard = Guard(Authenticator(tokens, FakeClock()))

    def decide(self, **changes: Any) -> Placed:
        """Put one more decision into the read models, at its place in the log."""
        self._made.append(self._caused(decision(**changes)))
        last = placed(self._made)[-1]
        record: Record[Decided] = Record(
            last.event, last.partition, last.offset, 1, NOW_MS, CONTRACT.encode(last.event)[5:]
        )
        projection = PlaybackProjection()
        with psycopg.connect(**self._settings.postgres.conninfo("projector"), autocommit=True) as connection:
            projection.prepare(connection)
            with connection.transaction():
                self.invalidated = projection.fold([record], connection).invalidations
        return last

    def _caused(self, event: PlaybackDecided) -> PlaybackDecided:
        partition = partition_for(event)
        offset = sum(partition_for(one) == partition for one in self._made)
        return replace(event, cause=SourcePosition("topic-id", partition, offset, 0))

    def get(self, path: str, who: str = "home", headers: dict[str, str] | None = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with ReadModels(Database(self._settings.postgres.conninfo("reader"))) as read:
                app = build_app("test")
                app.include_router(api_router(read, self._names, self._guard))
                transport = httpx.ASGITransport(app)
                async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                    sent = {"Authorization": f"Bearer {token(LETTER[who])}", **(headers or {})}
                    return await client.get(path, headers=sent)

        return asyncio.run(ask())

    def ids(self, path: str, field: str = "media") -> list[str]:
        """One field of all entries of all pages, two at a time."""
        found: list[str] = []
        cursor = ""
        while True:
            document = self.get(f"{path}?limit=2{cursor}").json()
            found += [item[field] for item in document["items"]]
            if document["next"] is None:
                return found
            cursor = f"&cursor={document['next']}"


@pytest.fixture
def house(model_settings: Settings) -> House:
    return House(model_settings)


def test_progress_is_shown_as_decided_with_its_version(house: House) -> None:
    last = house.decide(user_ref=ANA, media_id=FILM, position_ms=90_000, resume_position_ms=90_000)
    answer = house.get("/v1/users/ana/progress/film")
    document = answer.json()
    assert answer.status_code == 200
    assert answer.headers["ETag"] == f'"1.1.{last.offset}"'
    assert answer.headers["Cache-Control"] == "private, no-cache"
    shown = {name: document[name] for name in ("user", "media", "position_ms", "resume_position_ms", "phase", "played")}
    assert shown == {
        "user": ANA,
        "media": FILM,
        "position_ms": 90_000,
        "resume_position_ms": 90_000,
        "phase": "playing",
        "played": False,
    }
    assert document["version"] == {"model_epoch": 1, "log_epoch": 1, "partition": last.partition, "offset": 0}
    assert document["updated_at"] == NOW_MS
    assert (document["source_event_id"], document["source_device_id"]) == ("e-1", "tv")


def test_names_of_ours_and_of_the_source_mean_the_same(house: House) -> None:
    house.decide(user_ref=ANA, media_id=FILM)
    paths = [f"/v1/users/{user}/progress/{media}" for user in ("ana", ANA) for media in ("film", FILM)]
    assert [house.get(path).status_code for path in paths] == [200] * 4
    assert house.get("/v1/users/ana/progress/film?source=home", "operator").status_code == 200
    assert house.get(f"/v1/users/{ANA}/progress/{FILM}", "operator").status_code == 200


def test_a_known_version_is_answered_304_until_it_changes(house: House) -> None:
    house.decide(user_ref=ANA, media_id=FILM)
    for path in ("progress/film", "progress", "continue", "history/film"):
        etag = house.get(f"/v1/users/ana/{path}").headers["ETag"]
        same = house.get(f"/v1/users/ana/{path}", headers={"If-None-Match": etag})
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", etag)
    house.decide(user_ref=ANA, media_id=FILM, event_id="e-2", kind="pause", phase="paused")
    for path in ("progress/film", "progress", "continue", "history/film"):
        assert house.get(f"/v1/users/ana/{path}", headers={"If-None-Match": etag}).status_code == 200


@pytest.mark.parametrize("path", [f"progress/{FILM}", "progress", "continue"])
def test_a_known_version_is_answered_anew_when_the_source_calls_the_media_otherwise(house: House, path: str) -> None:
    def ask(etag: str) -> tuple[int, str | None, str]:
        answer = house.get(f"/v1/users/ana/{path}", headers={"If-None-Match": etag})
        shown = answer.json() if answer.content else {}
        name = shown.get("items", [shown])[0].get("upstream_media")
        return answer.status_code, name, answer.headers["ETag"]

    house.decide(user_ref=ANA, media_id=FILM)
    etag = ""
    for name in ("film", "film-2"):
        house.aliases.rows = {("home", name): FILM}
        status, shown, etag = ask(etag)
        assert (status, shown) == (200, name)
        assert ask(etag) == (304, None, etag)


def test_the_continue_list_holds_what_can_be_resumed_newest_first(house: House) -> None:
    for number in range(5):
        house.decide(user_ref=ANA, media_id=f"{number}" * 32, event_id=f"e-{number}", event_time=NOW_MS + number)
    house.decide(user_ref=ANA, media_id="1" * 32, event_id="e-9", phase="finished", resume_position_ms=None)
    house.decide(user_ref=ANA, media_id="8" * 32, event_id="e-8", resume_position_ms=None)
    house.decide(user_ref=BO, media_id=FILM, event_id="e-7")
    assert house.ids("/v1/users/ana/continue") == [letter * 32 for letter in "4320"]
    assert house.ids("/v1/users/ana/progress") == [letter * 32 for letter in "012348"]


def test_history_is_paged_newest_first(house: House) -> None:
    kinds = ["start", "pause", "resume", "seek", "stop"]
    for number, kind in enumerate(kinds):
        house.decide(user_ref=ANA, media_id=FILM, event_id=f"e-{number}", kind=kind)
    house.decide(user_ref=ANA, media_id=FILM, event_id="e-0", kind="start", verdict="duplicate")
    assert house.ids("/v1/users/ana/history/film", "kind") == kinds[::-1]
    assert len(set(house.ids("/v1/users/ana/history/film", "id"))) == 5


def test_a_person_without_anything_has_empty_lists_and_nobody_has_none(house: House) -> None:
    answer = house.get("/v1/users/idle/continue")
    assert (answer.status_code, answer.json()) == (200, {"items": [], "next": None, "version": None})
    assert house.get("/v1/users/idle/progress/film").status_code == 404
    assert house.get("/v1/users/idle/history/film").status_code == 404
    assert house.get("/v1/users/nobody/continue").status_code == 404


def test_others_do_not_exist_for_a_token_that_may_not_see_them(house: House) -> None:
    house.decide(user_ref=BO, media_id=FILM, event_id="e-bo")
    house.decide(user_ref=ANA, media_id=FILM, event_id="e-ana")
    assert house.get("/v1/users/bo/progress/film").status_code == 200
    for path in ("users/bo/progress/film", "users/bo/progress", f"users/{BO}/continue", "users/bo/history/film"):
        assert house.get(f"/v1/{path}", "ana").status_code == 404
        assert house.get(f"/v1/{path}", "flat").status_code == 404
    assert house.get("/v1/events/e-bo", "ana").status_code == 404
    assert house.get("/v1/events/e-bo", "flat").status_code == 404
    assert house.get("/v1/events/e-ana", "ana").status_code == 200
    assert house.get("/v1/users/ana/progress", "reporter").status_code == 403
    assert house.get("/v1/users/ana/progress", headers={"Authorization": ""}).status_code == 401


def test_an_event_is_explained_flat_with_its_first_decision(house: House) -> None:
    first = house.decide(
        user_ref=ANA, media_id=FILM, event_id="tv:s3/4", verdict="late", reason="older", notes=("tie",), kind="stop",
        position_moved=False,
    )  # fmt: skip
    house.decide(user_ref=ANA, media_id=FILM, event_id="tv:s3/4", verdict="duplicate")
    document = house.get("/v1/events/tv:s3/4").json()
    assert document.pop("correlation_id") == "c-1"
    assert document == {
        "event_id": "tv:s3/4",
        "verdict": "late",
        "reason": "older",
        "notes": ["tie"],
        "source": "home",
        "user": ANA,
        "media": FILM,
        "kind": "stop",
        "origin": "client",
        "report_position_ms": 1_800_000,
        "position_ms": 1_800_000,
        "occurred_at": NOW_MS - 200,
        "received_at": NOW_MS - 100,
        "event_time": NOW_MS - 200,
        "logged_at": NOW_MS,
        "deliveries": 2,
        "cause_topic_id": "topic-id",
        "cause_partition": first.partition,
        "cause_offset": 0,
        "partition": first.partition,
        "offset": 0,
        "log_epoch": 1,
    }


def test_an_event_id_of_several_reports_is_ambiguous_until_told_which(house: House) -> None:
    house.decide(user_ref=ANA, media_id=FILM, event_id="e-1")
    house.decide(user_ref=ANA, media_id=SONG, event_id="e-1")
    house.decide(user_ref=BO, media_id=FILM, event_id="e-1")
    house.decide(user_ref=CYD, media_id=FILM, event_id="e-1", source_id="flat")
    several = house.get("/v1/events/e-1")
    assert several.status_code == 409
    assert len(several.json()["which"]) == 3
    assert house.get("/v1/events/e-1?user=bo").json()["user"] == BO
    assert house.get("/v1/events/e-1?user=ana&media=song").json()["media"] == SONG
    assert house.get("/v1/events/e-1?source=flat", "operator").json()["user"] == CYD
    assert len(house.get("/v1/events/e-1", "operator").json()["which"]) == 4


def test_an_unknown_event_is_404_and_an_expired_one_410(house: House) -> None:
    assert house.get("/v1/events/never").status_code == 404
    house.decide(user_ref=ANA, media_id=FILM, event_id="old", logged_at=1_600_000_000_000)
    assert house.get("/v1/events/old").status_code == 410


@contextmanager
def meanwhile(work: Any) -> Iterator[None]:
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def test_after_waits_for_the_decision_of_ones_own_report(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.decide(user_ref=ANA, media_id=FILM, event_id="e-1", position_ms=1)
    missed, decided = threading.Event(), ReadModels.decided

    async def asked(read: ReadModels, event_id: str, user: str) -> bool:
        found = await decided(read, event_id, user)
        missed.set()
        return found

    def later() -> None:
        assert missed.wait(PATIENCE_S)
        house.decide(user_ref=ANA, media_id=FILM, event_id="e-2", position_ms=2)

    monkeypatch.setattr(ReadModels, "decided", asked)
    # How soon the decision comes is the machine's affair.
    monkeypatch.setattr(router, "AFTER_WAIT_S", PATIENCE_S)
    with meanwhile(later):
        answer = house.get("/v1/users/ana/progress/film?after=e-2")
    assert (answer.status_code, answer.json()["position_ms"]) == (200, 2)


@pytest.mark.parametrize("path", ["progress/film", "progress", "continue", "history/film"])
def test_after_an_event_that_is_not_decided_in_time_is_504_with_retry_after(house: House, path: str) -> None:
    house.decide(user_ref=ANA, media_id=FILM, event_id="e-1")
    house.decide(user_ref=BO, media_id=FILM, event_id="e-bo")
    answer = house.get(f"/v1/users/ana/{path}?after=e-bo")
    assert answer.status_code == 504
    assert answer.headers["Retry-After"] == "1"
    assert answer.json()["type"] == "urn:playhead:problem:not_decided_yet"


@pytest.mark.parametrize(
    "path",
    ["progress?limit=0", "progress?limit=501", "progress?limit=x", "continue?cursor=!!", "continue?after=%00",
     "progress/%00", f"progress/{'x' * 300}"],
)  # fmt: skip
def test_what_makes_no_sense_is_422(house: House, path: str) -> None:
    answer = house.get(f"/v1/users/ana/{path}")
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_without_a_database_the_answer_is_503_with_retry_after(model_settings: Settings) -> None:
    nowhere = model_settings.postgres.model_copy(update={"port": 1})
    answer = House(model_settings.model_copy(update={"postgres": nowhere})).get("/v1/users/ana/progress")
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers

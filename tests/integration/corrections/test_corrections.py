"""A person's corrections, from the door to what is read, all real; and a dead letter redriven by the command line."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from confluent_kafka import Producer

from schemas.placement import PARTITIONS, playback_key, playback_partition
from schemas.topics import PLAYBACK_REPORTED
from streams.cli.admin import door_connection
from streams.cli.app import main
from streams.domain.identity import media_id
from streams.runtime.contract import Contract
from streams.runtime.tokens import create_token
from tests.faults.world import SOURCE, World, playhead_world
from tests.integration.dlq.office import report
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("corrections"), pytest.mark.long]

HOUR_MS = 3_600_000
DURATION_MS = 2 * HOUR_MS


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with playhead_world() as made:
        yield made


@pytest.fixture
def film() -> str:
    return f"film-{uuid.uuid4().hex[:8]}"


class Viewer:
    """Somebody who watches one film on two devices."""

    def __init__(self, world: World, film: str) -> None:
        self.world, self.film = world, film
        self.began = int(time.time() * 1000) - 3 * HOUR_MS
        self._sequence = 0

    def play(self, kind: str, minute: int, position_ms: int | None = None, device: str = "tv", **more: Any) -> str:
        self._sequence += 1
        event_id = f"{self.film}-{self._sequence}"
        document = {
            "event_id": event_id,
            "user": "ana",
            "media": self.film,
            "media_kind": "video",
            "kind": kind,
            "session_id": f"{device}-1",
            "device_id": device,
            "sequence": self._sequence,
            "position_ms": position_ms,
            "duration_ms": DURATION_MS,
            "occurred_at": self.began + minute * 60_000,
        }
        self.world.send([document | more])
        return event_id

    def read(self, after: str) -> dict[str, Any]:
        """What is shown once the decision about ``after`` is."""
        until = time.monotonic() + 90
        while (answer := self.world.client.get(self.path(""), params={"after": after})).status_code == 504:
            assert time.monotonic() < until, "not decided"
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def path(self, action: str) -> str:
        return f"/v1/users/ana/progress/{self.film}{action}"

    def post(self, action: str, body: dict[str, Any], *, key: str | None = None, **params: str) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.world.client.post(self.path(f"/{action}"), json=body, headers=headers, params=params)

    def correct(self, action: str, body: dict[str, Any], *, key: str | None = None) -> dict[str, Any]:
        answer = self.post(action, body, key=key)
        assert answer.status_code == 202, answer.text
        return self.read(answer.json()["event_ids"][-1])

    def history(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.world.client.get(f"/v1/users/ana/history/{self.film}").json()["items"]
        return found


@pytest.fixture
def viewer(world: World, film: str) -> Viewer:
    return Viewer(world, film)


def test_an_earlier_position_is_restored_and_the_restore_can_be_undone_the_same_way(viewer: Viewer) -> None:
    viewer.play("start", 0, 0)
    viewer.play("progress", 20, 20 * 60_000)
    viewer.read(viewer.play("seek", 21, 90 * 60_000))
    [entry] = [one for one in viewer.history() if one["position_ms"] == 20 * 60_000]
    assert viewer.correct("restore", {"entry": entry["id"]})["position_ms"] == 20 * 60_000
    [further] = [one for one in viewer.history() if one["position_ms"] == 90 * 60_000]
    shown = viewer.correct("restore", {"entry": further["id"]})
    assert (shown["position_ms"], shown["phase"]) == (90 * 60_000, "stopped")
    assert viewer.history()[0]["origin"] == "command"


def test_a_wrong_finish_is_undone_with_position_and_played(viewer: Viewer) -> None:
    viewer.play("start", 0, 0)
    viewer.play("progress", 30, 30 * 60_000)
    shown = viewer.read(viewer.play("finish", 31, DURATION_MS))
    assert (shown["phase"], shown["played"]) == ("finished", True)

    key = uuid.uuid4().hex
    shown = viewer.correct("restore", {"before": "finish"}, key=key)
    wanted = (30 * 60_000, 30 * 60_000, False, "stopped")
    assert (shown["position_ms"], shown["resume_position_ms"], shown["played"], shown["phase"]) == wanted
    again = viewer.correct("restore", {"before": "finish"}, key=key)
    assert again["version"] == shown["version"], "the same request again is the same correction"
    refused = viewer.post("restore", {"before": "finish"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:playhead:problem:not_finished")


def test_a_second_finish_undone_leaves_it_played(viewer: Viewer) -> None:
    viewer.play("finish", 0, DURATION_MS)
    viewer.play("start", 60, 0, device="phone")
    viewer.play("progress", 61, 60_000, device="phone")
    viewer.play("progress", 90, 30 * 60_000, device="phone")
    shown = viewer.read(viewer.play("finish", 91, DURATION_MS, device="phone"))
    assert (shown["phase"], shown["epoch"]) == ("finished", 2)
    shown = viewer.correct("restore", {"before": "finish"})
    assert (shown["position_ms"], shown["played"], shown["phase"]) == (30 * 60_000, True, "stopped")


def with_conflict(viewer: Viewer) -> None:
    """The television is at one hour, and the phone tells late that it was at one and a half before."""
    viewer.play("start", 0, 0)
    viewer.play("progress", 60, HOUR_MS)
    late = viewer.play("progress", 30, HOUR_MS + HOUR_MS // 2, device="phone")
    assert viewer.read(late)["conflict"]["position_ms"] == HOUR_MS + HOUR_MS // 2


def test_a_conflict_is_resolved_for_the_other_side(viewer: Viewer) -> None:
    with_conflict(viewer)
    changed = viewer.post("resolve", {"take": "conflict", "position_ms": 7})
    assert (changed.status_code, changed.json()["position_ms"]) == (409, HOUR_MS + HOUR_MS // 2)
    shown = viewer.correct("resolve", {"take": "conflict", "position_ms": HOUR_MS + HOUR_MS // 2})
    assert (shown["position_ms"], shown["conflict"]) == (HOUR_MS + HOUR_MS // 2, None)
    refused = viewer.post("resolve", {"take": "conflict"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:playhead:problem:no_conflict")


def test_a_conflict_is_resolved_for_the_shown_side(viewer: Viewer) -> None:
    with_conflict(viewer)
    shown = viewer.correct("resolve", {"take": "position"})
    assert (shown["position_ms"], shown["conflict"]) == (HOUR_MS, None)


def test_a_device_whose_clock_is_ahead_cannot_make_a_correction_late(viewer: Viewer) -> None:
    now_minute = (int(time.time() * 1000) - viewer.began) / 60_000
    ahead_ms = int(viewer.began + now_minute * 60_000) + 45_000
    shown = viewer.read(viewer.play("progress", 0, HOUR_MS, occurred_at=ahead_ms))
    assert shown["event_time"] == ahead_ms
    viewer.read(viewer.play("seek", 0, HOUR_MS + 60_000, occurred_at=ahead_ms + 1))
    [entry] = [one for one in viewer.history() if one["position_ms"] == HOUR_MS]
    assert viewer.correct("restore", {"entry": entry["id"]})["position_ms"] == HOUR_MS


def test_what_is_not_there_or_not_to_be_seen_is_not_corrected(viewer: Viewer, world: World) -> None:
    viewer.read(viewer.play("progress", 0, HOUR_MS))
    for entry in ("1.0.999999", "nonsense", "1.2"):
        assert viewer.post("restore", {"entry": entry}).status_code == 404
    for body in ({}, {"entry": "1.0.0", "before": "finish"}, {"before": "start"}):
        assert viewer.post("restore", body).status_code == 422
    nothing = world.client.post("/v1/users/ana/progress/never-played/restore", json={"entry": "1.0.0"})
    assert nothing.status_code == 404
    with door_connection(world.settings) as connection:
        tokens = {scope: create_token(connection, SOURCE, [scope], None, "t") for scope in ("report", "read")}
    for token in tokens.values():
        answer = world.client.post(
            viewer.path("/restore"), json={"entry": "1.0.0"}, headers={"Authorization": f"Bearer {token}"}
        )
        assert answer.status_code == 403


def test_an_operator_without_a_source_corrects_in_the_name_of_the_one_that_spoke_last(
    viewer: Viewer, world: World
) -> None:
    viewer.play("progress", 0, HOUR_MS)
    shown = viewer.read(viewer.play("seek", 1, 90 * 60_000))
    [entry] = [one for one in viewer.history() if one["position_ms"] == HOUR_MS]
    with door_connection(world.settings) as connection:
        operator = create_token(connection, None, ["operate"], None, "operator")
    answer = world.client.post(
        f"/v1/users/{shown['user']}/progress/{shown['media']}/restore",
        json={"entry": entry["id"]},
        headers={"Authorization": f"Bearer {operator}"},
    )
    assert answer.status_code == 202, answer.text
    assert viewer.read(answer.json()["event_ids"][-1])["position_ms"] == HOUR_MS
    assert viewer.history()[0]["source"] == SOURCE


# --- by the command line


@pytest.fixture
def commands(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """``playhead`` of this world."""
    for name, value in world.settings.environment().items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("commands")
def test_history_names_entries_that_restore_goes_back_to(
    viewer: Viewer, world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    viewer.play("progress", 0, HOUR_MS)
    viewer.read(viewer.play("seek", 1, 90 * 60_000))
    names = ["ana", viewer.film, "--source", SOURCE]
    assert main(["history", *names, "--json"]) == 0
    entries = json.loads(capsys.readouterr().out)
    assert [one["position_ms"] for one in entries] == [90 * 60_000, HOUR_MS]
    with door_connection(world.settings) as connection:
        monkeypatch.setenv("PLAYHEAD_TOKEN", create_token(connection, SOURCE, ["report", "read"], None, "cli"))
    assert main(["restore", *names, entries[1]["id"], "--json"]) == 0
    assert viewer.read(json.loads(capsys.readouterr().out)["event_ids"][0])["position_ms"] == HOUR_MS
    assert main(["restore", *names, "--before-finish"]) == 1
    assert "not finished" in capsys.readouterr().out
    assert main(["restore", *names]) == 2
    assert main(["history", "nobody", viewer.film, "--source", SOURCE]) == 1


@pytest.mark.usefixtures("commands")
def test_a_report_is_explained_from_the_read_model_and_for_ever_from_the_log(
    viewer: Viewer, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    event_id = viewer.play("progress", 0, HOUR_MS)
    shown = viewer.read(event_id)
    assert main(["explain", event_id, "--json"]) == 0
    [read] = json.loads(capsys.readouterr().out)["decisions"]
    told = [read]
    for more in ([], ["--user", shown["user"]]):
        assert main(["explain", event_id, "--from-log", "--json", *more]) == 0
        told += json.loads(capsys.readouterr().out)["decisions"]
    assert len(told) == 3
    assert {(one["verdict"], one["position_ms"], one["correlation_id"]) for one in told} == {
        ("accepted", HOUR_MS, shown["correlation_id"])
    }
    assert main(["explain", "never-heard-of"]) == 1
    assert main(["explain", event_id, "--from-log", "--user", "f" * 32]) == 1

    with psycopg.connect(world.superuser) as connection:
        connection.execute("DELETE FROM model.processed_events WHERE event_id = %s", (event_id,))
    gone = world.client.get(f"/v1/events/{event_id}", params={"user": "ana"})
    assert (gone.status_code, gone.json()["type"]) == (410, "urn:playhead:problem:expired")
    assert world.client.get(f"/v1/events/{event_id}").status_code == 404


def told(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main(["dlq", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("commands")
def test_a_report_in_a_wrong_partition_is_listed_shown_redriven_and_decided_once(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    user, media = uuid.uuid4().hex, media_id(SOURCE, "lost")
    key, contract = playback_key(user, media), Contract.of(world.settings)
    home = playback_partition(key)
    producer = Producer(world.settings.kafka.client())
    lost = contract.encode(report(user, media))
    producer.produce(PLAYBACK_REPORTED.name, key=key, value=lost, partition=(home + 1) % PARTITIONS)
    assert producer.flush(30) == 0

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = told(capsys, "list", "--cause", "wrong_partition")["letters"]
        return found

    eventually(lambda: bool(listed()), "the letter is listed", 60)
    [letter] = listed()
    [group] = told(capsys, "list", "--by", "cause")["groups"]
    assert (group["count"], group["consumer"], group["cause_class"]) == (1, "agent.playback", "wrong_partition")
    shown = told(capsys, "show", letter["letter_id"][:10], "--payload")
    assert shown["redrive"] == f"appended to {PLAYBACK_REPORTED.name}[{home}]"
    assert shown["payload"]["fields"]["user_ref"] == user
    assert "payload" not in told(capsys, "show", letter["letter_id"])

    query = f"SELECT count(*) FROM model.processed_events WHERE user_ref = '{user}'"
    told(capsys, "redrive", "--cause", "wrong_partition", "--dry-run")
    assert world.scalar(query) == 0
    done = told(capsys, "redrive", letter["letter_id"][:10], "--reason", "the sender places by user now", "--by", "ops")
    assert list(done["done"]) == [letter["letter_id"]]
    eventually(lambda: world.scalar(query) == 1, "it is decided", 60)
    position = f"SELECT position_ms FROM model.playback_progress WHERE user_ref = '{user}'"
    assert world.scalar(position) == 1_000

    assert told(capsys, "redrive", "--all")["done"] == {}
    told(capsys, "redrive", letter["letter_id"], "--again")
    eventually(lambda: world.scalar(query) == 2, "it is decided again", 60)
    assert world.scalar(f"SELECT max(verdict) FROM model.processed_events WHERE user_ref = '{user}'") == "duplicate"
    assert (listed(), world.scalar(position)) == ([], 1_000)
    lines = told(capsys, "audit")
    assert [line["action"] for line in lines] == ["redriven", "redrive", "redriven", "redrive"]
    assert (lines[-1]["actor"], lines[-1]["reason"]) == ("ops", "the sender places by user now")
    assert main(["dlq", "redrive"]) == 2, "nothing says which"

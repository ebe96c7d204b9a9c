"""POST /v1/playback."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from schemas.placement import playback_partition
from schemas.topics import PLAYBACK_REPORTED
from streams.domain.identity import media_id
from streams.ingest.http.answers import checked_key
from streams.runtime.problems import Problem
from tests.ingest.fakes import World, progress


def post(world: World, body: Any = None, **options: Any) -> Any:
    options.setdefault("token", world.report)
    return asyncio.run(world.post("/v1/playback", body, **options))


def test_a_report_is_answered_202_and_stands_in_the_log_as_the_contract_says() -> None:
    world = World()
    answer = post(world, progress(source="home"), X_Correlation_Id="trace-7")
    assert answer.status_code == 202
    assert answer.json() == {"accepted": 1, "event_ids": ["tv-17:s3:42"], "rejected": []}
    assert answer.headers["X-Correlation-Id"] == "trace-7"
    [record] = world.publisher.of(PLAYBACK_REPORTED.name)
    [event] = world.reported()
    assert record.key == f"{event.user_ref}:{event.media_id}".encode()
    assert record.partition == playback_partition(record.key)
    assert event.user_ref == world.people.rows["home", "ana"].user_ref
    assert (event.source_id, event.media_id, event.upstream_media) == ("home", media_id("home", "m-81"), "m-81")
    assert (event.correlation_id, event.received_at) == ("trace-7", world.clock.now_ms())
    assert (event.kind, event.position_ms, event.duration_ms) == ("progress", 1_830_000, 6_600_000)
    assert (event.session_id, event.device_id, event.sequence) == ("s3", "tv-17", 42)
    assert (event.occurred_at, event.media_kind, event.origin) == (1_795_983_300_000, "video", "client")


def test_a_batch_accepts_the_good_ones_and_names_the_bad_ones_by_index() -> None:
    world = World()
    answer = post(
        world,
        {
            "reports": [
                progress(event_id="a"),
                progress(event_id="b", position_ms=-1),
                "nonsense",
                progress(event_id="c", kind="dance"),
                progress(event_id="d", source="jelly"),
                progress(event_id="e"),
            ]
        },
    )
    assert answer.status_code == 202
    document = answer.json()
    assert (document["accepted"], document["event_ids"]) == (2, ["a", "e"])
    assert [(r["index"], r["reason"]) for r in document["rejected"]] == [
        (1, "invalid_position"),
        (2, "not_an_object"),
        (3, "unknown_kind"),
        (4, "wrong_source"),
    ]
    assert [event.event_id for event in world.reported()] == ["a", "e"]


def test_when_no_report_can_be_used_the_answer_is_422_with_the_reasons() -> None:
    world = World()
    answer = post(world, {"reports": [progress(user=None), progress(media=None)]})
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert [r["reason"] for r in answer.json()["rejected"]] == ["missing_user", "missing_media"]
    assert world.publisher.records == []


def test_an_empty_batch_is_no_error() -> None:
    answer = post(World(), {"reports": []})
    assert (answer.status_code, answer.json()["accepted"]) == (202, 0)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff\xfe", b'{"a":' * 40 + b"1" + b"}" * 40, b"[1,2]", b"null", b'{"user":"a","media":NaN}']
)
def test_what_is_no_report_at_all_is_refused_with_a_problem(body: bytes) -> None:
    world = World()
    answer = post(world, content=body, Content_Type="application/json")
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert world.publisher.records == []


@pytest.mark.parametrize("field", ["user", "media", "event_id", "session_id", "device_id"])
@pytest.mark.parametrize("bad", ["nul\\u0000", "lone\\ud800", "x" * 257])
def test_ids_with_nul_lone_surrogates_or_too_long_are_refused_alone(field: str, bad: str) -> None:
    world = World()
    good = json.dumps(progress(event_id="good"))
    report = json.dumps(progress(event_id="bad") | {field: "@@"}).replace("@@", bad)
    answer = post(world, content=f'{{"reports":[{report},{good}]}}'.encode(), Content_Type="application/json")
    assert answer.status_code == 202
    assert answer.json()["event_ids"] == ["good"]
    assert [r["index"] for r in answer.json()["rejected"]] == [0]


def test_more_than_a_thousand_reports_are_413_and_a_thousand_are_taken() -> None:
    world = World()
    small = {"user": "ana", "media": "m", "kind": "pause"}
    assert post(world, {"reports": [small] * 1001}).status_code == 413
    assert world.publisher.records == []
    answer = post(world, {"reports": [small] * 1000})
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1000)
    lines = "\n".join([json.dumps(small)] * 1001)
    assert post(world, content=lines.encode(), Content_Type="application/x-ndjson").status_code == 413


def test_the_source_is_the_tokens_whatever_the_body_says() -> None:
    world = World()
    assert post(world, progress(source="jelly")).json()["rejected"][0]["reason"] == "wrong_source"
    assert post(world, progress(source="jelly"), token=world.jelly).status_code == 202
    assert [event.source_id for event in world.reported()] == ["jelly"]


def test_an_operators_token_names_a_source_that_exists() -> None:
    world = World()
    reports = [progress(source="jelly"), progress(source="attic"), progress()]
    answer = post(world, {"reports": reports}, token=world.operate)
    assert answer.json()["accepted"] == 1
    assert [r["reason"] for r in answer.json()["rejected"]] == ["unknown_source", "no_source"]
    assert [event.source_id for event in world.reported()] == ["jelly"]


def test_the_receive_time_is_ours() -> None:
    world = World()
    assert post(world, progress(received_at=1, logged_at=1)).status_code == 202
    assert world.reported()[0].received_at == world.clock.now_ms()


def test_the_same_idempotency_key_gives_the_same_event_ids() -> None:
    world = World()
    batch = {"reports": [progress(event_id=None), progress(event_id=None, sequence=43), progress(event_id="own")]}
    first = post(world, batch, Idempotency_Key="k-1").json()["event_ids"]
    again = post(world, batch, Idempotency_Key="k-1").json()["event_ids"]
    other = post(world, batch, Idempotency_Key="k-2").json()["event_ids"]
    stranger = post(world, batch, Idempotency_Key="k-1", token=world.jelly).json()["event_ids"]
    assert first == again
    assert first[2] == "own"
    assert len({*first, *other, *stranger}) == 7


def test_an_unusable_idempotency_key_is_refused() -> None:
    assert post(World(), progress(), Idempotency_Key="x" * 257).status_code == 400
    for key in ("", " ", "a\tb", "ü"):
        with pytest.raises(Problem):
            checked_key(key)


def test_without_an_event_id_one_is_derived_when_the_report_can_be_recognised() -> None:
    world = World()

    def sent(**changes: Any) -> str:
        return str(post(world, progress(event_id=None, **changes)).json()["event_ids"][0])

    assert sent() == sent()
    assert sent() != sent(position_ms=1)
    nameless = {"sequence": None, "occurred_at": None}
    assert sent(**nameless) != sent(**nameless)


def test_a_media_id_of_ours_is_taken_as_such_and_another_32_digits_as_the_sources() -> None:
    world = World()
    post(world, progress(event_id="a"))
    ours = world.reported()[0].media_id
    post(world, progress(event_id="b", media=ours))
    theirs = "a1b2c3d4e5f60718293a4b5c6d7e8f90"
    post(world, progress(event_id="c", media=theirs))
    _, by_ours, by_theirs = world.reported()
    assert (by_ours.media_id, by_ours.upstream_media) == (ours, None)
    assert (by_theirs.media_id, by_theirs.upstream_media) == (media_id("home", theirs), theirs)


def test_a_user_ref_of_ours_means_the_same_person() -> None:
    world = World()
    post(world, progress(event_id="a"))
    post(world, progress(event_id="b", user=world.reported()[0].user_ref))
    first, second = world.reported()
    assert first.user_ref == second.user_ref
    assert len(world.people.rows) == 1


def test_a_token_bound_to_a_person_reports_for_nobody_else_and_makes_nobody() -> None:
    world = World()
    asyncio.run(world.people.add("home", {"bea": "b" * 32, "ana": "a" * 32}))
    reports = [progress(user="bea"), progress(user="ana"), progress(user="stranger")]
    answer = post(world, {"reports": reports}, token=world.bound)
    assert answer.json()["accepted"] == 1
    assert [r["reason"] for r in answer.json()["rejected"]] == ["wrong_user", "wrong_user"]
    assert [event.user_ref for event in world.reported()] == ["b" * 32]
    assert ("home", "stranger") not in world.people.rows


def test_kafka_away_is_503_with_retry_after_and_never_2xx() -> None:
    world = World()
    world.publisher.away = True
    answer = post(world, progress())
    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert answer.json()["dependency"] == "kafka"
    world.publisher.away = False
    assert post(world, progress()).status_code == 202


def test_with_the_database_away_the_known_pass_and_the_unknown_get_503() -> None:
    world = World()
    assert post(world, progress(event_id="a")).status_code == 202
    world.database.away = True
    world.clock.advance(120_000)
    assert post(world, progress(event_id="b", media="never-seen")).status_code == 202
    unknown = post(world, progress(event_id="c", user="stranger"))
    assert (unknown.status_code, unknown.json()["dependency"]) == (503, "postgres")
    assert "Retry-After" in unknown.headers
    assert [event.event_id for event in world.reported()] == ["a", "b"]
    assert world.reported()[1].media_id == media_id("home", "never-seen")


def test_an_unexpected_error_is_a_500_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def burst(_: object) -> None:
        raise RuntimeError("secret-in-message")

    world.publisher.on_publish = burst
    answer = post(world, progress())
    assert (answer.status_code, answer.headers["Content-Type"]) == (500, "application/problem+json")
    assert "secret-in-message" not in answer.text


def test_a_form_is_415_and_json_with_a_charset_is_taken() -> None:
    world = World()
    form = post(world, content=b"a=b", Content_Type="application/x-www-form-urlencoded")
    assert form.status_code == 415
    assert post(world, content=b"{}", Content_Type="").status_code == 415
    text = json.dumps(progress()).encode()
    assert post(world, content=text, Content_Type="application/json; charset=utf-8").status_code == 202


def test_the_description_names_every_answer_and_its_examples_are_accepted() -> None:
    world = World()
    operation = world.app.openapi()["paths"]["/v1/playback"]["post"]
    assert {"202", "401", "403", "413", "415", "422", "429", "503"} <= set(operation["responses"])
    for example in operation["requestBody"]["content"]["application/json"]["examples"].values():
        assert post(world, example["value"]).status_code == 202

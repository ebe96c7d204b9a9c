"""Hooks of media servers, as they send them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from schemas.library import ItemObserved, ItemRemovalObserved
from schemas.topics import LIBRARY_OBSERVED
from streams.runtime import metrics
from streams.runtime.commands import command_partition
from tests.ingest.fakes import World, progress

EXAMPLES = Path(__file__).parents[1] / "examples" / "parse"
NATIVE_MODE = (EXAMPLES / "jellyfin/progress-native-ticks.json").read_bytes()
TEMPLATE_MODE = (EXAMPLES / "jellyfin/progress-template-strings.json").read_bytes()
ITEM_DELETED = (EXAMPLES / "jellyfin/item-deleted.json").read_bytes()
ITEM_ADDED = json.dumps(
    {
        "NotificationType": "ItemAdded",
        "ItemId": "a1b2c3d4e5f60718293a4b5c6d7e8f90",
        "ItemType": "Movie",
        "Name": "Harbour",
        "Provider_imdb": "tt0111161",
        "Provider_other": "7",
    }
).encode()
UNKNOWN_TYPE = (EXAMPLES / "jellyfin/unknown-type.json").read_bytes()


def hook(world: World, path: str, content: bytes, **options: Any) -> Any:
    return asyncio.run(world.post(path, content=content, **options))


@pytest.mark.parametrize("body", [NATIVE_MODE, TEMPLATE_MODE], ids=["send-all", "template"])
@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "text/plain", None])
def test_both_modes_of_jellyfins_plugin_become_a_webhook_report(body: bytes, content_type: str | None) -> None:
    world = World()
    headers = {"Content_Type": content_type} if content_type else {}
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", body, **headers)
    assert answer.status_code == 202
    assert (answer.json()["accepted"], answer.json()["observations_ignored"]) == (1, 0)
    [event] = world.reported()
    assert (event.source_id, event.origin, event.device_id) == ("jelly", "webhook", "dev-77aa")
    assert event.upstream_media == "a1b2c3d4e5f60718293a4b5c6d7e8f90"
    assert event.duration_ms == 2_640_000
    assert event.user_ref == world.people.rows["jelly", "3f1c0d5e8a2b4c6d9e0f112233445566"].user_ref


def test_both_modes_mean_the_same_person_and_media() -> None:
    world = World()
    for body in (NATIVE_MODE, TEMPLATE_MODE):
        hook(world, f"/hooks/jellyfin/{world.jelly}", body)
    first, second = world.reported()
    assert (first.user_ref, first.media_id) == (second.user_ref, second.media_id)


def test_the_token_may_come_as_bearer_instead() -> None:
    world = World()
    assert hook(world, "/hooks/jellyfin", NATIVE_MODE, token=world.jelly).status_code == 202
    assert hook(world, "/hooks/jellyfin", NATIVE_MODE).status_code == 401


def test_the_path_token_counts_and_not_a_proxys_authorization() -> None:
    world = World()
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", NATIVE_MODE, Authorization="Basic cHJveHk6eA==")
    assert answer.status_code == 202


def observed(world: World) -> list[Any]:
    return [world.codec.decode(record.value) for record in world.publisher.of(LIBRARY_OBSERVED.name)]


def test_an_item_that_is_gone_is_told_to_the_library_of_the_tokens_source() -> None:
    world = World()
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", ITEM_DELETED)
    assert answer.status_code == 202
    assert (answer.json()["accepted"], answer.json()["observations"]) == (0, 1)
    [event] = observed(world)
    assert isinstance(event, ItemRemovalObserved)
    assert (event.source_id, event.how) == ("jelly", "hook")
    [record] = world.publisher.of(LIBRARY_OBSERVED.name)
    assert (record.key, record.partition) == (b"jelly", command_partition("jelly"))


def test_an_item_that_is_new_is_told_with_what_the_hook_says_of_it() -> None:
    world = World()
    assert hook(world, f"/hooks/jellyfin/{world.jelly}", ITEM_ADDED).status_code == 202
    [event] = observed(world)
    assert isinstance(event, ItemObserved)
    assert (event.generation, event.how, event.locator, event.ordinal) == (None, "hook", None, 0)
    assert event.details is not None
    assert event.details.item_kind == "movie"
    assert (event.details.media_kind, event.details.version, event.details.content_hash) == ("video", None, None)
    assert ("imdb", "tt0111161") in {(one.provider, one.id) for one in event.details.provider_ids}


def test_news_of_what_holds_others_is_none_of_an_item() -> None:
    world = World()
    counted = metrics.HOOKS_IGNORED.labels("jellyfin", "observation")._value.get()
    series = json.dumps({**json.loads(ITEM_ADDED), "ItemType": "Series"}).encode()
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", series)
    assert answer.status_code == 200
    assert (answer.json()["observations"], answer.json()["observations_ignored"]) == (0, 1)
    assert metrics.HOOKS_IGNORED.labels("jellyfin", "observation")._value.get() == counted + 1
    assert world.publisher.records == []


def test_the_same_news_under_one_key_has_one_event_id() -> None:
    world = World()
    for _ in range(2):
        hook(world, f"/hooks/jellyfin/{world.jelly}", ITEM_DELETED, Idempotency_Key="k-1")
    hook(world, f"/hooks/jellyfin/{world.jelly}", ITEM_DELETED)
    ids = [event.event_id for event in observed(world)]
    assert ids[0] == ids[1] != ids[2]


def test_an_event_that_carries_nothing_is_answered_200_with_the_reason() -> None:
    world = World()
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", UNKNOWN_TYPE)
    assert answer.status_code == 200
    assert [one["reason"] for one in answer.json()["ignored"]] == ["unknown_event"]


def test_a_broken_body_is_422_with_a_reason() -> None:
    world = World()
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", b'{"NotificationType":')
    assert answer.status_code == 422
    assert answer.json()["rejected"][0]["reason"] == "bad_json"


@pytest.mark.parametrize(
    ("format", "name", "content_type"),
    [
        ("plex", "plex/pause.body", "multipart/form-data; boundary=x"),
        ("emby", "emby/pause-json.json", "application/json"),
        ("emby", "emby/form-48-urlencoded.form", "application/x-www-form-urlencoded"),
        ("audiobookshelf", "audiobookshelf/media-progress.json", "application/json"),
    ],
)
def test_the_other_servers_hooks_are_taken_too(format: str, name: str, content_type: str) -> None:
    world = World()
    body = (EXAMPLES / name).read_bytes()
    answer = hook(world, f"/hooks/{format}/{world.jelly}", body, Content_Type=content_type)
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)


def test_no_hook_of_an_unknown_format_is_taken() -> None:
    world = World()
    assert hook(world, f"/hooks/native/{world.jelly}", json.dumps(progress()).encode()).status_code == 404
    assert hook(world, "/hooks/native/ph_wrong", b"{}").status_code == 401


def test_a_read_token_may_not_report() -> None:
    world = World()
    answer = hook(world, f"/hooks/jellyfin/{world.read}", NATIVE_MODE)
    assert (answer.status_code, answer.headers["Content-Type"]) == (403, "application/problem+json")


def test_kafka_away_is_503_for_hooks_too() -> None:
    world = World()
    world.publisher.away = True
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", NATIVE_MODE)
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers


def test_kafka_away_without_a_spool_is_503_for_news_too() -> None:
    world = World()
    world.publisher.away = True
    answer = hook(world, f"/hooks/jellyfin/{world.jelly}", ITEM_DELETED)
    assert answer.status_code == 503
    assert "Retry-After" in answer.headers

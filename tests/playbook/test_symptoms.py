"""Symptoms of the playbook, made on purpose: what it says to look at shows them, what it says mends them does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from projections import entry
from streams.cli import dlq
from streams.cli.app import main
from streams.runtime import logs, metrics
from streams.runtime.settings import Settings
from tests.integration.dlq.office import redriver_of
from tests.integration.dlq.test_reread import Desks
from tests.integration.projections.test_library_runner import of_topic, project, put
from tests.integration.projections.world import World, environment_of, expect_rows, projection_of
from tests.integration.rebuild.test_rebuild import household
from tests.projections.changes import Libraries
from tests.projections.decisions import fold, placed

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("rebuild"), pytest.mark.long]

Playhead = Callable[..., tuple[int, Any]]
"""Runs ``playhead …``: its exit code, and the JSON it prints."""


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Settings], Playhead]:
    """The command line with these settings."""

    def of(settings: Settings) -> Playhead:
        for name, value in environment_of(settings).items():
            monkeypatch.setenv(name, value)
        # This process's log is pytest's.
        monkeypatch.setattr(logs, "configure", lambda *_, **__: None)

        def playhead(*arguments: str) -> tuple[int, Any]:
            capsys.readouterr()
            code = main([*arguments, "--json"])
            return code, json.loads(capsys.readouterr().out)

        return playhead

    return of


def differences(document: Any) -> dict[str, list[tuple[str, list[str]]]]:
    return {
        table["table"]: [(one["live"], sorted(one["columns"])) for one in table["examples"]]
        for table in document["tables"]
        if table["rows_differing"]
    }


def test_items_doubled_by_rows_that_the_log_does_not_know_are_shown_by_key_and_rebuilt_away(
    changed: World, command: Callable[[Settings], Playhead], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(changed, Libraries(14).changes(120))
    project(changed, 120)
    before = changed.digests()
    monkeypatch.setitem(entry.PROJECTIONS, "library", type(of_topic(changed.topic)))
    playhead = command(changed.settings)

    double = "f" * 32
    changed.query(
        "INSERT INTO model.media_items SELECT (jsonb_populate_record(m, jsonb_build_object('media_id', %s::text))).* "
        "FROM model.media_items m LIMIT 1",
        double,
    )
    code, found = playhead("rebuild", "library", "--compare-only")
    assert (code, differences(found)) == (1, {"media_items": [("too much", [])]})
    [media_items] = [table for table in found["tables"] if table["table"] == "media_items"]
    assert double in media_items["examples"][0]["key"].values()

    code, found = playhead("rebuild", "library", "--switch", "--yes")
    assert (code, found["switched"]["model_epoch"]) == (0, 2)
    assert changed.digests() == before


def test_progress_gone_back_in_a_row_is_told_by_key_and_comes_back_from_the_log(
    world: World, command: Callable[[Settings], Playhead], monkeypatch: pytest.MonkeyPatch
) -> None:
    events = household(62).decisions(300)
    world.produce(events)
    world.project(300)
    monkeypatch.setitem(entry.PROJECTIONS, "playback", type(projection_of(world.topic)))
    playhead = command(world.settings)

    [(user, media)] = world.query(
        "UPDATE model.playback_progress SET position_ms = 0 WHERE (user_ref, media_id) = (SELECT user_ref, media_id "
        "FROM model.playback_progress WHERE position_ms > 0 LIMIT 1) RETURNING user_ref, media_id"
    )
    code, found = playhead("rebuild", "playback", "--compare-only")
    assert (code, differences(found)) == (1, {"playback_progress": [("differs", ["position_ms"])]})
    [progress] = [table for table in found["tables"] if table["table"] == "playback_progress"]
    assert {user, media} <= set(progress["examples"][0]["key"].values())

    assert playhead("rebuild", "playback", "--switch", "--yes")[0] == 0
    expect_rows(world.rows(), fold(placed(events)))
    assert playhead("rebuild", "playback", "--compare-only")[0] == 0


def test_updates_missing_though_no_queue_is_long_are_found_among_the_dead_letters_and_redriven(
    desks: Desks, command: Callable[[Settings], Playhead], monkeypatch: pytest.MonkeyPatch
) -> None:
    def given_up() -> float:
        labels = {"consumer": "projection.playback", "cause": "invalid_value"}
        return metrics.REGISTRY.get_sample_value("playhead_dead_letters_total", labels) or 0.0

    before = given_up()
    # Several decisions can be about one report.
    lost = sum(event.event_id in desks.given_up for event in desks.events)
    desks.project_with_a_fault()
    desks.letters()
    # Everything was read, and yet something is missing.
    [(applied,)] = desks.decided.query("SELECT sum(next_offset) FROM model.offsets WHERE projection = 'playback'")
    assert applied == len(desks.events)
    assert given_up() == before + lost
    [(known,)] = desks.decided.query("SELECT count(*) FROM model.processed_events")
    assert known < len(desks.events)

    playhead = command(desks.office.world.settings)
    code, found = playhead("dlq", "list", "--by", "cause")
    [group] = found["groups"]
    assert (code, group["cause_class"], group["count"]) == (0, "invalid_value", lost)

    # The build that is mended reads this test's topic.
    monkeypatch.setattr(
        dlq,
        "_redriver",
        lambda settings, desk: redriver_of(
            settings, desk, desks.office.world.topic, [projection_of(desks.decided.topic)]
        ),
    )
    assert playhead("dlq", "redrive", "--cause", "invalid_value", "--dry-run", "--reason", "mended")[0] == 0
    assert playhead("dlq", "redrive", "--cause", "invalid_value", "--reason", "mended")[0] == 0
    expect_rows(desks.decided.rows(), fold(placed(desks.events)))
    assert playhead("dlq", "list", "--by", "cause")[1]["groups"] == []

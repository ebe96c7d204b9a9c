"""``playhead rebuild``, as an operator types it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from projections.entry import PROJECTIONS
from projections.rebuild import tables
from projections.rebuild.starts import Beginning
from streams.cli.app import main
from streams.runtime import logs
from tests.integration.projections.world import World, projection_of
from tests.integration.rebuild.test_rebuild import household, rebuild_of

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("rebuild"), pytest.mark.long]

Playhead = Callable[..., tuple[int, Any]]


@pytest.fixture
def playhead(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Playhead:
    """Runs ``playhead rebuild … --json`` on the world; exit code and document."""
    monkeypatch.setitem(PROJECTIONS, "playback", type(projection_of(world.topic)))
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    for name, value in world.settings.environment().items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = main(["rebuild", *arguments, "--json"])
        printed = capsys.readouterr().out
        return code, json.loads(printed) if printed else None

    return run


def test_from_a_difference_to_the_switch_and_back(world: World, playhead: Playhead) -> None:
    world.produce(household(66).decisions(300))
    world.project(300)
    before = world.digests()

    code, told = playhead("playback", "--compare-only")
    assert (code, told["equal"], told["records"], told["switched"]) == (0, True, 300, None)
    assert playhead("discard") == (0, {"dropped": []})

    world.query("UPDATE model.playback_progress SET position_ms = position_ms + 1 WHERE ctid = '(0,1)'")
    code, told = playhead("playback")
    assert (code, told["equal"]) == (1, False)
    [table] = [one for one in told["tables"] if one["rows_differing"]]
    [example] = table["examples"]
    assert table["table"] == "playback_progress"
    assert example["columns"]["position_ms"]["live"] == example["columns"]["position_ms"]["rebuilt"] + 1

    code, told = playhead("playback", "--switch", "--yes")
    assert (code, told["records"], told["switched"]["model_epoch"]) == (0, 0, 2)
    assert world.digests() == before

    code, told = playhead("rollback", "--yes")
    assert (code, told["equal"], told["switched"]["model_epoch"]) == (0, False, 3)
    assert world.digests() != before
    assert playhead("discard") == (0, {"dropped": ["model_old"]})
    assert playhead("rollback")[0] == 78


def test_what_was_left_of_a_rebuild_and_of_a_comparison_is_dropped(world: World, playhead: Playhead) -> None:
    world.produce(household(67).decisions(10))
    world.project(10)
    for schema in (tables.NEXT, tables.CHECK):
        with rebuild_of(world, schema) as rebuild:
            rebuild.open(Beginning())
    assert playhead("discard") == (0, {"dropped": ["model_next", "model_check"]})
    assert playhead("discard") == (0, {"dropped": []})


def test_what_is_no_read_model_is_wrong_usage(playhead: Playhead) -> None:
    assert playhead("tasks")[0] == 2
    assert playhead("playback", "--compare-only", "--switch")[0] == 2


def test_a_projection_that_has_read_nothing_is_refused(playhead: Playhead) -> None:
    assert playhead("playback")[0] == 78

"""Where the demo says that metrics and dashboards are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from streams.cli import demo_metrics, demo_waiting


def line(**said: object) -> str:
    return json.dumps({"level": "info", **said}) + "\n"


def test_each_role_is_where_it_said_when_it_started_last_and_the_door_at_its_own_port(tmp_path: Path) -> None:
    (tmp_path / "relay.log").write_text(
        "ended with exit code 70; starting again\n"
        + line(event="metrics", url="http://127.0.0.1:1/metrics")
        + line(event="starting", settings={"metrics": {}})
        + line(event="metrics", url="http://127.0.0.1:2/metrics")
        + '{"event": "metrics", "url": "cut'
    )
    found = demo_metrics.addresses("http://127.0.0.1:8", ["serve", "relay"], tmp_path)
    assert found == {"serve": "http://127.0.0.1:8/metrics", "relay": "http://127.0.0.1:2/metrics"}


def test_a_role_that_never_says_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_metrics, "until", lambda what, look: demo_waiting.until(what, look, 0.0))
    with pytest.raises(RuntimeError, match="relay says where its metrics are"):
        demo_metrics.addresses("http://127.0.0.1:8", ["relay"], tmp_path)


def test_dashboards_are_those_of_the_tree_and_none_without_it(tmp_path: Path) -> None:
    assert demo_metrics.dashboards(tmp_path) == []
    there = tmp_path / "docker" / "observe" / "grafana"
    there.mkdir(parents=True)
    (there / "playhead.json").write_text("{}")
    (there / "alerts.yml").write_text("")
    assert demo_metrics.dashboards(tmp_path) == [Path("docker/observe/grafana/playhead.json")]


def test_what_is_waited_for_is_returned_when_it_comes_and_a_zero_counts() -> None:
    answers = iter([None, False, 0])
    assert demo_waiting.until("it comes", lambda: next(answers)) == 0


def test_a_place_is_shown_as_people_read_it() -> None:
    assert demo_waiting.clock(3_661_999) == "1:01:01"

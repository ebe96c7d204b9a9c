"""Where the demo says that metrics and dashboards are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from streams.cli import demo_metrics, demo_waiting
from streams.local import ports
from streams.runtime import metrics


def test_each_process_is_shown_with_its_address_once_it_has_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = ports.choose()
    with metrics.served(ports.LOOPBACK, port):
        demo_metrics.show({"relay": port}, tmp_path / "targets.json", Console(width=160))
    shown = capsys.readouterr().out
    assert re.search(rf"relay +│ http://127\.0\.0\.1:{port}/metrics +│ [1-9]", shown)
    assert "targets.json" in shown


def test_a_process_that_does_not_answer_ends_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_metrics, "until", lambda what, look: demo_waiting.until(what, look, 0.0))
    with pytest.raises(RuntimeError, match="relay answers at"):
        demo_metrics.show({"relay": ports.choose()}, tmp_path, Console())


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

"""Alerts: each is about numbers there are, leads to its section of the playbook, fires for its symptom and is silent
without it. Prometheus itself says so where promtool is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observe.playbook import anchors
from tests.observe.queries import OBSERVE, query, rules, wrong

RULES = {rule["alert"]: rule for rule in rules()}
SYMPTOMS: dict[str, tuple[dict[str, str], str]] = yaml.safe_load(
    (Path(__file__).parent / "symptoms.yml").read_text("utf-8")
)
"""Of each alert: series that are its symptom, minute by minute, in promtool's notation, and series of good days."""


def promtool(*arguments: str) -> str:
    """What is wrong; nothing where it is not installed: then the other tests have looked at names and labels."""
    found = shutil.which("promtool")
    if found is None:
        return ""
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False, timeout=60)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.parametrize("name", RULES)
def test_an_alert_asks_only_for_what_there_is_and_says_what_to_do(name: str) -> None:
    rule = RULES[name]
    assert wrong(query(rule["expr"])) == []
    assert rule["labels"]["severity"] in {"critical", "warning"}
    said = rule["annotations"]
    file, _, anchor = said["runbook_url"].partition("#")
    assert file == "PLAYBOOK.md"
    assert anchor in anchors()
    asked = query(rule["expr"])
    used = set(re.findall(r"\$labels\.(\w+)", said["summary"] + said["description"]))
    if asked.grouped:
        assert used <= asked.grouped


def test_every_alert_has_its_symptom() -> None:
    assert set(SYMPTOMS) == set(RULES)
    for name, case in SYMPTOMS.items():
        series = query(" ".join(case["ill"]))  # type: ignore[call-overload]
        assert set(series.metrics) & set(query(RULES[name]["expr"]).metrics), name
        assert wrong(series) == []


def test_prometheus_can_read_its_files() -> None:
    assert promtool("check", "config", str(OBSERVE / "prometheus.yml")) == ""
    assert promtool("check", "rules", str(OBSERVE / "alerts.yml")) == ""


def test_an_alert_fires_for_its_symptom_and_not_on_a_good_day(tmp_path: Path) -> None:
    tests: list[dict[str, Any]] = []
    for name, case in SYMPTOMS.items():
        for state, fires in (("ill", True), ("well", False)):
            series = [{"series": key, "values": values} for key, values in case[state].items()]  # type: ignore[call-overload,union-attr]
            labels = case.get("labels", {})  # type: ignore[attr-defined]
            wanted = [{"exp_labels": {**labels, "severity": RULES[name]["labels"]["severity"]}}] if fires else []
            tests.append(
                {
                    "interval": "1m",
                    "name": f"{name} {state}",
                    "input_series": series,
                    "alert_rule_test": [{"eval_time": "40m", "alertname": name, "exp_alerts": wanted}],
                }
            )
    # Texts are not compared: rules without them.
    bare = yaml.safe_load((OBSERVE / "alerts.yml").read_text("utf-8"))
    for group in bare["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(bare))
    (tmp_path / "test.yml").write_text(
        yaml.safe_dump({"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": tests})
    )
    assert promtool("test", "rules", str(tmp_path / "test.yml")) == ""

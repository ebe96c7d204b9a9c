"""The playbook names what there is: metrics, commands with their options, and the tests that make each symptom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from streams.cli.app import COMMANDS
from tests.house.tree import text
from tests.observe.playbook import anchors, commands, named_metrics, sections
from tests.observe.queries import known, rules

COVERED: dict[str, list[str]] = {
    "Items are doubled": [
        "tests/playbook/test_symptoms.py::test_items_doubled",
        "tests/integration/library/test_identity.py",
    ],
    "Progress goes back": ["tests/playbook/test_symptoms.py::test_progress_gone_back"],
    "The cache is never fresh": ["tests/playbook/test_never_fresh.py::test_never_fresh"],
    "The queue is healthy but updates are missing": ["tests/playbook/test_symptoms.py::test_updates_missing"],
    "A library is emptied or held": ["tests/integration/library/test_mounts.py"],
    "Dead letters rise": ["tests/integration/dlq/test_redrive.py"],
    "A projection refuses": ["tests/integration/projections/test_refusals.py"],
    "The agents refuse": ["tests/integration/engine/test_hanging.py", "tests/faults/test_poison.py"],
    "The spool fills": ["tests/integration/ingest/test_outages.py", "tests/ingest/test_spooling.py"],
    "Tasks are late or given up": ["tests/integration/tasks/test_worker.py", "tests/integration/tasks/test_leases.py"],
    "A server is not told or not heard": ["tests/integration/forwarding/test_targets.py"],
    "A process is down or starts again and again": ["tests/local/test_supervisor.py"],
    "No backup is made": ["tests/integration/dlq/test_attention.py"],
    "A dependency fails": ["tests/runtime/test_failures.py", "tests/faults/test_dependencies_away.py"],
}
"""Which tests make a symptom on purpose: a file, or tests of it whose names begin so."""


@pytest.mark.parametrize("heading", sections())
def test_a_section_says_where_to_look_and_what_mends_it_and_is_tested(heading: str) -> None:
    said = sections()[heading]
    assert named_metrics(said), "no metric to look at"
    # A histogram goes by the name its buckets begin with.
    there = {name.removesuffix("_bucket") for name in known()}
    assert set(named_metrics(said)) <= there, "a metric that is none"
    for place in COVERED[heading]:
        file, _, beginning = place.partition("::")
        tests = [
            node.name
            for node in ast.walk(ast.parse(text(Path(file))))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        assert any(name.startswith(beginning or "test_") for name in tests), place


def test_the_table_is_about_sections_there_are() -> None:
    assert set(COVERED) == set(sections())


@pytest.mark.parametrize("arguments", [one for said in sections().values() for one in commands(said)], ids=" ".join)
def test_a_command_exists_with_its_options(arguments: list[str]) -> None:
    name, *rest = arguments
    command = COMMANDS[name].load(name)
    while rest and rest[0] in getattr(command, "commands", {}):
        command, rest = command.commands[rest[0]], rest[1:]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {one for one in rest if one.startswith("--")} <= options


def test_every_section_but_those_for_people_is_what_an_alert_leads_to() -> None:
    led_to = {rule["annotations"]["runbook_url"].partition("#")[2] for rule in rules()}
    assert anchors() - led_to == {"progress-goes-back"}

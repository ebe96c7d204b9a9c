"""The command that has a server told once more."""

from __future__ import annotations

from projections.models.tasks import ForwardAgain, Wanted, forward_again, meaning
from streams.runtime.clock import FakeClock
from streams.runtime.commands import reconcile_requested


def test_a_server_is_to_be_told_again_by_a_command_of_its_source() -> None:
    command = forward_again("attic", "person", "film", FakeClock(), "why")
    assert (command.source_id, command.correlation_id) == ("attic", "why")
    assert meaning(command, 7) == ForwardAgain("person:film")


def test_a_comparison_is_a_task_of_its_source() -> None:
    command = reconcile_requested("attic", FakeClock(), "all")
    assert meaning(command, 7) == Wanted("reconcile", "attic", {"scope all": 7}, urgent=True)

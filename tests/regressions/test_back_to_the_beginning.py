"""A worker of a new group ended with "consumption went back", and one stood still for ever after a broker's death.

Both came of assigning partitions paused, at an offset for the time being, to be sought and resumed once restored.
Where the group had no offset that was the logical beginning: its look-up's late answer undid the seek, and the
consumer went back over what was read (3 of 15 starts on a broker that takes 60 ms to answer). And where the partitions
before were still stopping, librdkafka dropped the resume (issue 5591), without an error. So nothing is assigned before
it is restored, and then at the offset it goes on from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_consumer import Bench, start


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    made = Bench(tmp_path, {0: 5})
    yield made
    made.close()


def test_given_an_assignment_then_nothing_is_assigned_before_it_is_restored(bench: Bench) -> None:
    bench.assign(0, 1)
    assert [entry for entry in bench.log if entry.startswith("assign")] == ["assign []"]


def test_given_restored_units_then_only_absolute_offsets_are_assigned_and_nothing_is_paused_sought_or_resumed(
    bench: Bench,
) -> None:
    bench.assign(0, 1)
    start(bench, 0, 5)
    start(bench, 1, 0)
    assert bench.log[-2:] == ["assign [(0, 5)]", "assign [(0, 5), (1, 0)]"]
    assert not [entry for entry in bench.log if entry.startswith(("pause", "seek", "resume"))]

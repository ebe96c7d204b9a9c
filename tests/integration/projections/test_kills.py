"""kill -9 at every step boundary of projection and relay: nothing lost, nothing twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from projections.relay import Relay
from tests.integration.projections.world import World, environment_of, expect_rows
from tests.projections.decisions import Household, fold, placed

pytestmark = [pytest.mark.services, pytest.mark.faults]


def killed_at(world: World, point: str, *arguments: str) -> None:
    """Run a child until it kills itself at ``point``."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.integration.projections.child", *arguments],
        env={**os.environ, **environment_of(world.settings, PLAYHEAD_FAILPOINTS=f"{point}=kill")},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2_000:]


def test_a_projector_killed_at_every_boundary_leaves_rows_that_equal_the_fold(
    world: World, unique_name: Callable[[str], str]
) -> None:
    points = ["tx_open", "rows_written", "outbox_written", "offset_written", "committed"]
    events = Household(30).decisions(100 * (len(points) + 1))
    world.produce(events[:100])
    for number, point in enumerate(points, start=1):
        before = world.applied()
        killed_at(world, f"projection.{point}", "projection", world.topic.name, unique_name("group"))
        assert (world.applied() > before) == (point == "committed")
        world.produce(events[100 * number : 100 * (number + 1)])
    world.project(len(events))

    expect_rows(world.rows(), fold(placed(events)))
    newest = dict(world.query("SELECT cache_key, max(version) FROM model.outbox GROUP BY 1"))
    for (user, media), row in world.rows()["playback_progress"].items():
        assert newest[f"progress:{user}:{media}"] == row["version"]


def test_a_relay_killed_at_every_boundary_publishes_every_key_at_least_once(world: World) -> None:
    points = ["read_outbox", "published", "deleted"]
    events = Household(31).decisions(100 * len(points))
    for number, point in enumerate(points):
        world.produce(events[100 * number : 100 * (number + 1)])
        world.project(100 * (number + 1))
        [(waiting,)] = world.query("SELECT count(*) FROM model.outbox")
        killed_at(world, f"relay.{point}", "relay")
        [(left,)] = world.query("SELECT count(*) FROM model.outbox")
        assert left == (0 if point == "deleted" else waiting)
    relay = Relay(world.settings, world.contract)
    while relay.publish_some():
        pass
    relay.close()

    published: dict[str, int] = {}
    for event in world.invalidations({event.user_ref for event in events}):
        published[event.cache_key] = max(event.version, published.get(event.cache_key, -1))
    rows = world.rows()
    expected = {f"progress:{user}:{media}": row["version"] for (user, media), row in rows["playback_progress"].items()}
    expected |= {f"continue:{user}": row["version"] for (user,), row in rows["user_versions"].items()}
    assert published == expected

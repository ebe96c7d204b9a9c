"""Agents, projectors and the relay are killed and frozen at random; what comes out is what the rules say, once.

``PLAYHEAD_FAULT_REPORTS`` and ``PLAYHEAD_FAULT_COUNT`` scale it (``make faults``: 50,000 reports, 14 faults).
"""

from __future__ import annotations

import os
import time
from contextlib import closing

import psycopg
import pytest

from projections.digest import digests
from projections.models.playback import PlaybackProjection
from projections.runner import Runner
from streams.runtime.contract import Contract
from tests.faults import oracle
from tests.faults.chaos import Chaos
from tests.faults.workload import Workload
from tests.faults.world import World, playhead_world
from tests.integration.projections.world import Running, eventually

REPORTS = int(os.environ.get("PLAYHEAD_FAULT_REPORTS", "10000"))
FAULTS = int(os.environ.get("PLAYHEAD_FAULT_COUNT", "6"))
SEED = int(os.environ.get("PLAYHEAD_FAULT_SEED", str(int(time.time()) % 100_000)))
BATCH = 100


@pytest.mark.services
@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(1_500)
def test_given_roles_killed_and_frozen_every_report_has_exactly_its_decision_row_and_invalidation() -> None:
    print(f"seed {SEED}: {REPORTS} reports, {FAULTS} faults; PLAYHEAD_FAULT_SEED={SEED} plays it again")
    with playhead_world(agents=2, projectors=2, registry=True) as world:
        roles = ["agents-1", "agents-2", "project-1", "project-2", "relay"]
        session_s = world.settings.playback.session_timeout_s
        chaos = Chaos(world.playhead.supervisor, roles, seed=SEED, faults=FAULTS, session_s=session_s)
        chaos.start()
        try:
            accepted = 0
            for batch in Workload(SEED, REPORTS, begin_ms=int(time.time() * 1000) - 3_600_000).batches(BATCH):
                accepted += world.send(batch)
            chaos.join(FAULTS * 30)
        finally:
            chaos.stop()
        world.settle()
        logs = oracle.read_logs(world.settings)
        # A repeat after an answer that got lost can only add records, never leave one out.
        assert len(logs.reported) >= accepted == REPORTS
        oracle.every_report_has_one_decision(logs)
        oracle.decisions_are_the_pure_fold(world.settings, logs)
        oracle.rows_are_the_fold(world.settings, logs)
        announced = oracle.changes_are_invalidated(world.settings, logs)
        verdicts = {event.verdict for _, event in logs.decided}
        assert {"accepted", "duplicate", "late", "pending", "ignored"} <= verdicts, "the workload is too tame"
        print(f"{dict(chaos.counts)}; {len(logs.decided)} decisions, {announced} announced versions")
        _a_second_replay_changes_nothing(world, len(logs.decided))


def _a_second_replay_changes_nothing(world: World, decisions: int) -> None:
    """Forget where the projection stands and let it read the whole log again."""
    supervisor = world.playhead.supervisor
    supervisor.stop()
    with psycopg.connect(world.superuser) as owner:
        before = digests(owner)
        owner.execute("DELETE FROM model.offsets")
    with closing(Contract.of(world.settings)) as contract:
        running = Running(Runner(PlaybackProjection(), world.settings, contract))
        try:
            eventually(
                lambda: running.error is not None or _records_passed(world) >= decisions, "the log is replayed", 120
            )
        finally:
            running.stop.set()
            running.thread.join(30)
    assert running.error is None, running.error
    with psycopg.connect(world.superuser) as owner:
        assert digests(owner) == before


def _records_passed(world: World) -> int:
    """Records read since the offsets were forgotten. Markers between them make the offsets larger, so what is
    counted is whether each partition stands behind its newest row."""
    return int(
        world.scalar(
            "SELECT coalesce(sum(n), 0) FROM (SELECT p.partition, count(*) AS n, max(p.version) AS newest"
            " FROM model.processed_events p GROUP BY p.partition) AS t"
            " JOIN model.offsets o USING (partition) WHERE o.next_offset > t.newest"
        )
    )

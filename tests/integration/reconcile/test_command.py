"""``playhead reconcile`` as an operator types it, as a task of every night, and killed between any two steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from projections.entry import PROJECTIONS
from projections.reconcile.findings import Cause, Scope
from projections.reconcile.running import Chosen, reconcile
from projections.reconcile.scheduled import comparing
from streams.effects.wiring import make_worker
from streams.runtime.clock import SystemClock
from streams.runtime.commands import reconcile_requested
from streams.runtime.settings import PREFIX
from tests.house.tree import ROOT
from tests.ingest.pollers.servers.jellyfin import BEN
from tests.integration.reconcile.lab import MINUTE_MS, Lab, causes, film, same

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("reconcile"), pytest.mark.long]

EDIT = "UPDATE model.playback_progress SET listened_ms = listened_ms + 1 WHERE media_id = %s"


class Died(BaseException):
    """As a kill would end it."""


def command(lab: Lab, *arguments: str, expect: int) -> Any:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    done = subprocess.run(
        [sys.executable, "-m", "streams.cli", "reconcile", *arguments, "--json"],
        cwd=ROOT,
        env={**kept, **lab.house.settings.environment()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def test_an_operator_is_told_what_differs_what_would_be_done_and_that_it_is_done(lab: Lab) -> None:
    assert lab.write(EDIT, lab.media(2)) == 1
    told = command(lab, "--only", "rows", expect=1)
    assert told["drift"]["row_edited"]["count"] == 1
    assert lab.media(2) in told["drift"]["row_edited"]["examples"][0]
    assert command(lab, "--only", "rows", "--repair", "--dry-run", expect=1)["would_repair"] == {"refold": 1}
    assert command(lab, "--only", "rows", "--repair", expect=0)["repaired"] == {"refold": 1}
    assert command(lab, "--only", "rows,cache,orphans,aliases", expect=0)["drift"] == {}


@pytest.mark.parametrize("point", ["reconcile.compared", "reconcile.refolded", "reconcile.asked", "reconcile.told"])
def test_a_run_that_died_is_run_again_and_mends_all_of_it(lab: Lab, point: str) -> None:
    assert lab.write(EDIT, lab.media(3)) == 1
    lab.attic.data[BEN, same(6)] |= {"PlaybackPositionTicks": 0, "LastPlayedDate": None}

    def die(at: str) -> None:
        if at == point:
            raise Died

    scopes = (Scope.ROWS, Scope.PROGRESS)
    with pytest.raises(Died):
        reconcile(lab.house.settings, lab.house.contract, Chosen(scopes, repair=True), PROJECTIONS, failpoint=die)
    lab.reconcile(*scopes, repair=True)
    lab.settle()
    assert causes(lab.reconcile(*scopes)) == {}
    assert lab.at(6) == 30 * MINUTE_MS


def test_every_night_each_source_is_compared_and_what_was_missing_for_long_is_archived(lab: Lab) -> None:
    del lab.den.items[film(10)]
    lab.scan("den")
    lab.settle()
    assert lab.write("UPDATE model.media_items SET changed_at = 0 WHERE media_id = %s", lab.media(10)) == 1
    assert causes(lab.reconcile(Scope.LIBRARY)) == {Cause.GRACE_OVER: 1}

    lab.house.give(reconcile_requested("den", SystemClock(), "library", correlation_id="tonight"))
    stop = threading.Event()
    house = lab.house
    compare = comparing(house.settings, house.contract, PROJECTIONS)
    with make_worker(
        house.settings, house.contract, kinds=["reconcile"], watching=False, scheduling=False, compare=compare
    ) as worker:
        thread = threading.Thread(target=worker.run, args=(stop,))
        thread.start()
        try:
            house.wait(lambda: bool(house.query(RUNS)), "it is compared")
            house.wait(lambda: house.query(STATUS, lab.media(10)) == [("archived",)], "it is archived")
        finally:
            stop.set()
            thread.join(60)
    assert house.query(RUNS) == [("den", ["library"], {"grace_over": 1})]
    assert causes(lab.reconcile(Scope.LIBRARY)) == {}


RUNS = "SELECT source_id, scopes, drift FROM core.reconcile_runs WHERE run_id = 'tonight'"
STATUS = "SELECT status FROM model.media_items WHERE media_id = %s"

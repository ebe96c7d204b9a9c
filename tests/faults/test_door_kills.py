"""The door is killed at random under load while the broker comes and goes: what it answered 2xx counts, once.

``PLAYHEAD_DOOR_KILLS`` scales it (``make faults``: 20). Senders are like webhooks: they never send again.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from typing import Any

import httpx
import pytest

from streams.local.supervisor import BACKOFF_FIRST_S
from tests.faults import oracle
from tests.faults.test_exactly_one_decision import SEED
from tests.faults.world import World, playhead_world
from tests.integration.projections.world import eventually

KILLS = int(os.environ.get("PLAYHEAD_DOOR_KILLS", "3"))
SENDERS = 8
BATCH_MAX = 5
PAUSE_S = (0.02, 0.1)
# How long the door lives between kills; how often it is killed while it starts, and how often the broker is stopped
# or started before a kill.
LIFE_S = (0.3, 3.5)
EARLY = 0.15
BROKER_TURNS = 0.4
PATIENCE_S = 120


class Sender:
    """One person's player behind a server that never repeats a webhook, in a thread of its own."""

    def __init__(self, world: World, number: int, stop: threading.Event) -> None:
        self._world = world
        self._dice = random.Random(SEED * 1_000 + number)
        self._stop = stop
        self._user = f"door-{SEED}-{number}"
        self._sequence = 0
        self.sent: set[str] = set()
        self.accepted: set[str] = set()
        self.answers: Counter[str] = Counter()
        self.thread = threading.Thread(target=self._run, name=self._user, daemon=True)

    def _run(self) -> None:
        headers = dict(self._world.client.headers)
        with httpx.Client(base_url=self._world.client.base_url, headers=headers, timeout=20) as client:
            while not self._stop.is_set():
                batch = [self.report() for _ in range(self._dice.randint(1, BATCH_MAX))]
                try:
                    answer = client.post("/v1/playback", json={"reports": batch})
                except httpx.TransportError as exc:
                    self.answers[type(exc).__name__] += 1
                else:
                    self.answers[str(answer.status_code)] += 1
                    if answer.is_success:
                        assert answer.json()["rejected"] == []
                        self.accepted |= set(answer.json()["event_ids"])
                self._stop.wait(self._dice.uniform(*PAUSE_S))

    def report(self) -> dict[str, Any]:
        self._sequence += 1
        event_id = f"{self._user}:{self._sequence}"
        self.sent.add(event_id)
        return {
            "event_id": event_id,
            "user": self._user,
            "media": f"film-{self._sequence % 3}",
            "session_id": f"s{self._sequence % 3}",
            "sequence": self._sequence,
            "kind": "progress",
            "position_ms": self._sequence * 1_000,
            "duration_ms": 72_000_000,
            "occurred_at": int(time.time() * 1000),
        }


def _havoc(world: World) -> Counter[str]:
    """Kill the door KILLS times; the broker is stopped at least once and is there at the end."""
    dice = random.Random(SEED)
    supervisor, kafka = world.playhead.supervisor, world.playhead.stack.kafka
    done: Counter[str] = Counter()
    there = True
    try:
        while done["kill"] < KILLS:
            if dice.random() < BROKER_TURNS or (done["kill"] == KILLS // 2 and not done["broker stop"]):
                (kafka.stop if there else kafka.start)()
                there = not there
                done["broker start" if there else "broker stop"] += 1
            if dice.random() >= EARLY:
                eventually(lambda: _answers(world), "the door answers", 60)
                time.sleep(dice.uniform(*LIFE_S))
            # Twenty kills in a row would make the supervisor wait ever longer, and there would be no load.
            supervisor._roles["serve"].backoff_s = BACKOFF_FIRST_S
            before = supervisor.starts("serve")
            if supervisor.signal("serve", signal.SIGKILL) is None:
                continue
            done["kill"] += 1
            eventually(lambda: supervisor.starts("serve") > before, "the door is started again", 60)  # noqa: B023
    finally:
        if not there:
            kafka.start()
    return done


def _answers(world: World) -> bool:
    try:
        return world.client.get("/healthz").is_success
    except httpx.TransportError:
        return False


def _spooled(world: World) -> float:
    """Reports in the door's spool, as its metrics say; -1 while it does not answer."""
    try:
        lines = world.client.get("/metrics").text.splitlines()
    except httpx.TransportError:
        return -1
    return next((float(line.split()[1]) for line in lines if line.startswith("playhead_spool_records ")), -1)


@pytest.mark.services
@pytest.mark.faults
@pytest.mark.long
@pytest.mark.timeout(900)
def test_given_the_door_killed_and_the_broker_away_every_2xx_counts_once_and_nothing_is_invented() -> None:
    print(f"seed {SEED}: {KILLS} kills; PLAYHEAD_FAULT_SEED={SEED} PLAYHEAD_DOOR_KILLS={KILLS} plays it again")
    with playhead_world() as world:
        stop = threading.Event()
        senders = [Sender(world, number, stop) for number in range(SENDERS)]
        # Everybody has been met before: a life may be too short to make somebody known.
        world.send([sender.report() for sender in senders])
        for sender in senders:
            sender.thread.start()
        try:
            done = _havoc(world)
        finally:
            stop.set()
            for sender in senders:
                sender.thread.join(30)
        eventually(lambda: _spooled(world) == 0, "the spool is empty", PATIENCE_S)
        world.settle()
        logs = oracle.read_logs(world.settings)
        sent = set[str]().union(*(sender.sent for sender in senders))
        accepted = set[str]().union(*(sender.accepted for sender in senders))
        answers = sum((sender.answers for sender in senders), Counter[str]())
        copies = Counter(event.event_id for _, event in logs.reported)
        effects = Counter(event.event_id for _, event in logs.decided if event.verdict != "duplicate")
        print(f"{dict(done)}; answers {dict(answers)}")
        print(
            f"{len(sent)} sent, {len(accepted)} accepted, {len(copies)} in the log,"
            f" {copies.total() - len(copies)} of them twice"
        )
        assert done["broker stop"] >= 1
        assert len(accepted) > 20 * SENDERS, "the load was no load"
        assert not accepted - copies.keys(), f"{len(accepted - copies.keys())} accepted reports are lost"
        assert copies.keys() <= sent, "reports nobody sent"
        assert {effects[event_id] for event_id in copies} == {1}, "a report counts more than once, or not at all"
        oracle.every_report_has_one_decision(logs)
        oracle.rows_are_the_fold(world.settings, logs)

"""A rebuild of the playback model: decisions a second, beside the live projection's rate on the same log.

    python -m tests.benchmarks.rebuild_bench [--decisions 1000000] [--days 365] [--profile]

An embedded Kafka and PostgreSQL on this machine. The decisions lie evenly over the last DAYS days (explanations are
kept for 30). The live projection reads them all first, then they are rebuilt from offset 0, compared and switched. What
is counted of the rebuild is from the first record to all of them in tables with all indexes. The last line is JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import os
import pstats
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
from confluent_kafka import Consumer

from projections.migrate import migrate
from projections.rebuild.running import Rebuild
from projections.rebuild.starts import Beginning
from projections.roles import create_roles
from schemas.events import PlaybackDecided
from schemas.topics import CACHE_INVALIDATED, DEAD_LETTERS
from streams.local import Stack
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import KafkaSettings
from tests.integration.projections.world import PASSWORDS, World, decided_topic, projection_of, settings_for
from tests.kafka import watermarks
from tests.projections.decisions import decision

DATABASE = "rebuild_bench"
DAY_MS = 86_400_000
PEOPLE, AT_ONCE, MEDIA, LENGTH_S = 400, 40, 2_000, 2_400


def decisions(count: int, days: int) -> Iterator[PlaybackDecided]:
    """``count`` decisions, evenly over the last ``days`` days: at any time AT_ONCE people play one media each from its
    start to its end, with a report every 10 s, a pause now and then, and every hundredth a duplicate."""
    dice = random.Random(1)
    begin = int(time.time() * 1000) - days * DAY_MS
    offsets: Counter[int] = Counter()
    people = [Person(f"{dice.getrandbits(128):032x}") for _ in range(PEOPLE)]
    reports = LENGTH_S // 10 + 1
    number = 0
    while number < count:
        evening = begin + number * days * DAY_MS // count
        playing = dice.sample(people, AT_ONCE)
        for step in range(reports):
            for person in playing[: count - number]:
                event = person.next(dice, evening + step * 10_000)
                partition = event.cause.partition
                yield replace(event, event_id=f"e-{number}", cause=replace(event.cause, offset=offsets[partition]))
                offsets[partition] += 1
                number += 1


@dataclass
class Person:
    user: str
    media: str = ""
    at_s: int = 0
    epoch: int = 1
    plays: Counter[str] = field(default_factory=Counter)
    listened: Counter[str] = field(default_factory=Counter)

    def next(self, dice: random.Random, now: int) -> PlaybackDecided:
        kind, duplicate = "progress", dice.random() < 0.01
        if not self.media or self.at_s >= LENGTH_S:
            self.media, self.at_s, kind = f"{dice.randrange(MEDIA):032x}", 0, "start"
        elif not duplicate:
            self.at_s += 10
            kind = "finish" if self.at_s >= LENGTH_S else "pause" if dice.random() < 0.02 else "progress"
        counted = kind == "finish"
        added = 10_000 if kind == "progress" and not duplicate else 0
        self.plays[self.media] += counted
        self.listened[self.media] += added
        plays = self.plays[self.media]
        return decision(
            user_ref=self.user,
            media_id=self.media,
            correlation_id=f"{dice.getrandbits(128):032x}",
            verdict="duplicate" if duplicate else "accepted",
            reason="seen" if duplicate else None,
            kind=kind,
            received_at=now - 100,
            report_event_time=now - 200,
            event_time=now - 200,
            logged_at=now,
            report_position_ms=self.at_s * 1_000,
            position_ms=self.at_s * 1_000,
            resume_position_ms=None if counted else self.at_s * 1_000,
            position_moved=not duplicate,
            phase="finished" if counted else "paused" if kind == "pause" else "playing",
            play_counted=counted,
            play_epoch=self.epoch if counted else None,
            played=plays > 0,
            play_count=plays,
            listened_added_ms=added,
            listened_ms=self.listened[self.media],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--no-live", action="store_true", help="the live projection is set to the end, without rows")
    parser.add_argument("--profile", action="store_true", help="of this process, while it rebuilds")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="playhead-bench-") as folder:
        os.chmod(folder, 0o711)
        with Stack(Path(folder) / "stack") as stack:
            print(json.dumps(measure(stack, asked)))


def measure(stack: Stack, asked: argparse.Namespace) -> dict[str, object]:
    postgres, bootstrap = stack.addresses.postgres, stack.addresses.bootstrap
    assert postgres is not None
    assert bootstrap is not None
    create_roles(postgres.url(), PASSWORDS, DATABASE)
    settings = settings_for(bootstrap, postgres, DATABASE)
    migrate(settings.postgres.conninfo("owner"))
    apply_topics(KafkaSettings(bootstrap=bootstrap), [DEAD_LETTERS, CACHE_INVALIDATED])
    world = World(settings, decided_topic("bench.decided"), postgres.url(DATABASE))
    world.create_topic()
    began = time.monotonic()
    world.produce(decisions(asked.decisions, asked.days))
    print(f"{asked.decisions} decisions in the log after {time.monotonic() - began:.0f} s", flush=True)
    began = time.monotonic()
    if asked.no_live:
        world.project(1)
        set_to_end(world)
    else:
        with world.running():
            world.wait_applied(asked.decisions, 3_600)
    live_s = time.monotonic() - began
    print(f"live projection: {asked.decisions / live_s:,.0f} decisions/s", flush=True)
    with Rebuild(projection_of(world.topic), settings, world.contract) as rebuild:
        rebuild.open(Beginning())
        profile = cProfile.Profile()
        began, cpu = time.monotonic(), (time.process_time(), server_cpu_s(world))
        if asked.profile:
            profile.enable()
        assert rebuild.catch_up()
        profile.disable()
        rebuild_s = time.monotonic() - began
        python_s, server_s = time.process_time() - cpu[0], server_cpu_s(world) - cpu[1]
        print(
            f"rebuild: {asked.decisions / rebuild_s:,.0f} decisions/s, {rebuild_s:.1f} s; CPU: {python_s:.1f} s here, "
            f"{server_s:.1f} s in PostgreSQL",
            flush=True,
        )
        if asked.profile:
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        began = time.monotonic()
        compared = rebuild.compare()
        compare_s = time.monotonic() - began
        switched = rebuild.switch()
    return {
        "decisions": asked.decisions,
        "days": asked.days,
        "live_per_s": None if asked.no_live else round(asked.decisions / live_s),
        "rebuilt_per_s": round(asked.decisions / rebuild_s),
        "rebuild_s": round(rebuild_s, 1),
        "python_cpu_s": round(python_s, 1),
        "postgres_cpu_s": round(server_s, 1),
        "compare_s": round(compare_s, 1),
        "equal": all(one.equal for one in compared),
        "rows": {one.table: one.second.rows for one in compared},
        "switch_held_ms": switched.held_ms,
    }


def server_cpu_s(world: World) -> float:
    """CPU time of the sessions and helpers of PostgreSQL that run now, seconds."""
    [(pid,)] = world.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'")
    postmaster = psutil.Process(pid).parent()
    assert postmaster is not None
    spent = 0.0
    for one in postmaster.children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            times = one.cpu_times()
            spent += times.user + times.system
    return spent


def set_to_end(world: World) -> None:
    """Let the live projection stand at the end of the log without having read it."""
    consumer = Consumer({**world.settings.kafka.client(), "group.id": "bench"})
    for partition in range(world.topic.partitions):
        end = watermarks(consumer, world.topic.name, partition)[1]
        world.query("UPDATE model.offsets SET next_offset = %s WHERE partition = %s", end, partition)
    consumer.close()


if __name__ == "__main__":
    main()

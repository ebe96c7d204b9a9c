"""A rebuild of the playback model: decisions a second, beside the live projection's rate on the same log.

    python -m tests.benchmarks.rebuild_bench [--decisions 1000000] [--days 365] [--profile]

An embedded Kafka and PostgreSQL on this machine. The decisions lie evenly over the last DAYS days (explanations are
kept for 30). The live projection reads them all first, then they are rebuilt from offset 0, compared and switched. What
is counted of the rebuild is from the first record to all of them in tables with all indexes. The last line is JSON.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

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
from tests.projections.decisions import Household

DATABASE = "rebuild_bench"
DAY_MS = 86_400_000
USERS, MEDIA = 500, 60


def decisions(count: int, days: int) -> Iterator[PlaybackDecided]:
    """``count`` decisions, evenly over the last ``days`` days."""
    household = Household(1, users=USERS, media=MEDIA)
    begin = int(time.time() * 1000) - days * DAY_MS
    for number in range(count):
        yield replace(household.decisions(1)[0], logged_at=begin + number * days * DAY_MS // count)


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
        began = time.monotonic()
        if asked.profile:
            profile.enable()
        assert rebuild.catch_up()
        profile.disable()
        rebuild_s = time.monotonic() - began
        print(f"rebuild: {asked.decisions / rebuild_s:,.0f} decisions/s, {rebuild_s:.1f} s", flush=True)
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
        "compare_s": round(compare_s, 1),
        "equal": all(one.equal for one in compared),
        "rows": {one.table: one.second.rows for one in compared},
        "switch_held_ms": switched.held_ms,
    }


def set_to_end(world: World) -> None:
    """Let the live projection stand at the end of the log without having read it."""
    consumer = Consumer({**world.settings.kafka.client(), "group.id": "bench"})
    for partition in range(world.topic.partitions):
        end = watermarks(consumer, world.topic.name, partition)[1]
        world.query("UPDATE model.offsets SET next_offset = %s WHERE partition = %s", end, partition)
    consumer.close()


if __name__ == "__main__":
    main()

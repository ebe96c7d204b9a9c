"""Speed, latency, recovery and cost of the engine, beside its peers, in one run on one broker.

Every part starts what it needs and removes it. Kafka Streams needs a JDK (javac on the path or in JAVA_HOME);
its jars and Quix Streams are fetched once into the cache folder. A peer that can't be had is left out with a
word why. Ratios count, not figures: the broker shares the machine. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from . import chart, report
from .broker import kafka
from .failover import failover, restart
from .figures import ratios
from .latency import idle, latency
from .playback_bench import playback
from .restore import restore
from .throughput import Peers, Plan, run

PARTS = ("throughput", "latency", "restore", "failover", "idle", "playback")
#: The one that is judged first; the others get one round.
KEYS = (200_000, 5_000)
EXAMPLES = """\
examples:
  make bench                                               everything, about 20 minutes
  make bench ARGS="--quick"                                everything, small, about 3 minutes; figures of no worth
  make bench ARGS="--only throughput --keys 200000 --rounds 1"
  make bench ARGS="--only latency idle"
  make bench ARGS="--only throughput --no-peers --records 500000"
  make bench ARGS="--only throughput --threads 1 2 --chart bench.svg"
"""


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """What the command line says; --quick changes what was not given."""
    parser = argparse.ArgumentParser(
        prog="engine_bench", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="NAME", help=", ".join(PARTS))
    parser.add_argument("--bootstrap", help="a running Kafka; left out: an embedded one")
    parser.add_argument("--records", type=int, help="of the topic everyone reads (2,000,000)")
    parser.add_argument("--keys", type=int, nargs="+", help="different keys, one topic each (200,000 and 5,000)")
    parser.add_argument("--rounds", type=int, help="of the fast ones, in turns; medians (3)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of Kafka Streams, one run each (1)")
    parser.add_argument("--no-peers", dest="peers", action="store_false", help="the engine alone")
    parser.add_argument("--batch", type=int, help="the engine's max_batch, when its default is not wanted")
    parser.add_argument("--quick", action="store_true", help="200,000 records, one round, short waits")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="write an SVG of the first throughput table there")
    return parser.parse_args(given)


def main(given: list[str] | None = None) -> None:
    options = arguments(given)
    console, began = Console(), time.monotonic()
    progress = Console(stderr=True, highlight=False)

    def say(what: str) -> None:
        progress.print(f"{time.monotonic() - began:7.1f} s  {what}", style="dim", markup=False)

    with kafka(options.bootstrap) as bootstrap:
        results = measured(bootstrap, options, say)
    report.show(results, console)
    if options.chart and (throughput := results.get("throughput")):
        keys, rows = next(iter(throughput.items()))
        subtitle = f"Avro decode, table get and set, Avro encode, one output; exactly once; {int(keys):,} keys"
        options.chart.write_text(chart.svg("Records per second, one process", subtitle, chart.bars(rows)), "utf-8")
        say(f"chart written to {options.chart}")
    print(json.dumps(results))


def measured(bootstrap: str, options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the parts that were asked for; all figures, ready for JSON."""
    quick = options.quick
    results: dict[str, Any] = {"bench": "engine", "machine": _machine(), "quick": quick}
    parts: dict[str, Callable[[], Any]] = {
        "throughput": lambda: _throughput(bootstrap, options, say),
        "latency": lambda: {rate: latency(bootstrap, rate, 5 if quick else 20) for rate in (200, 2_000)},
        "restore": lambda: restore(bootstrap, 50_000 if quick else 1_000_000),
        "failover": lambda: failover(bootstrap) | restart(bootstrap),
        "idle": lambda: idle(bootstrap, 5 if quick else 20),
        "playback": lambda: _plain(playback(bootstrap, 30_000 if quick else 500_000)),
    }
    for name in PARTS:
        if name in options.only:
            say(name)
            results[name] = parts[name]()
    if throughput := results.get("throughput"):
        results["ratios"] = next(iter(throughput.values())).pop("ratios")
        for rows in throughput.values():
            rows.pop("ratios", None)
    return results


def _throughput(bootstrap: str, options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    quick = options.quick
    plan = Plan(
        records=options.records or (200_000 if quick else 2_000_000),
        keys=0,
        rounds=options.rounds or (1 if quick else 3),
        stock_records=10_000 if quick else 100_000,
        quix_records=50_000 if quick else 800_000,
        kafka_streams_threads=tuple(options.threads),
        peers=options.peers,
        engine=(("max_batch", options.batch),) if options.batch else (),
    )
    peers = Peers(options.peers, say)
    found: dict[str, Any] = {}
    try:
        for keys in options.keys or (KEYS[:1] if quick else KEYS):
            rows = run(bootstrap, replace(plan, keys=keys, rounds=1 if found else plan.rounds), peers, say)
            found[str(keys)] = {**_plain(rows), "ratios": ratios(rows)}
    finally:
        peers.close()
    return found


def _plain(rows: dict[str, Any]) -> dict[str, Any]:
    return {name: row.plain() for name, row in rows.items()}


def _machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "system": platform.platform(), "python": sys.version.split()[0]}


if __name__ == "__main__":
    main()

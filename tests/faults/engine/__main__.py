"""The fault programme of the engine, as a command.

Cases run one after the other against real, embedded Kafka: workers of streams.engine under continuous load, a fault,
and an oracle that folds the inputs by itself. Exit code 1 on any violation.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import time
from collections.abc import Sequence

from rich.console import Console
from rich.status import Status
from rich.table import Table

from streams.local.kafka_cluster import KafkaCluster
from streams.local.unprivileged import temporary_folder

from . import cases as _registered  # noqa: F401  importing registers them
from .case import CASES, Case
from .programme import Result, Scale, arena, commit, run
from .soak import soak_case

EXAMPLES = """\
examples:
  python -m tests.faults.engine                             every case, on one broker
  python -m tests.faults.engine --brokers 3                 cases that break brokers, on three
  python -m tests.faults.engine --case zombie --seed 7      one case, as it was with seed 7
  python -m tests.faults.engine --soak 15 --records 1000000 random faults for a quarter of an hour
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    defaults = Scale()
    parser = argparse.ArgumentParser(
        "python -m tests.faults.engine", description=__doc__, epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--list", action="store_true", help="show the cases and end")
    parser.add_argument("--case", action="append", metavar="NAME", choices=list(CASES), help="only this; repeatable")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="how many Kafka brokers (default 1)")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="of workload and faults")
    parser.add_argument("--records", type=int, default=defaults.records, help="written in each case, at least")
    parser.add_argument("--rate", type=float, default=None, help=f"records a second (default {defaults.rate:g})")
    parser.add_argument("--partitions", type=int, default=defaults.partitions, help="of every topic")
    parser.add_argument("--workers", type=int, default=defaults.workers, help="processes")
    parser.add_argument("--patience", type=float, default=1.0, help="multiplies every deadline, for busy machines")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="a random mix of faults instead of the cases")
    parser.add_argument("--keep", action="store_true", help="leave logs and data of failed cases")
    return parser.parse_args(arguments)


def chosen(options: argparse.Namespace) -> list[Case]:
    """The cases to run: the control first, and on three brokers only what breaks brokers, unless named."""
    if options.soak:
        return [soak_case(options.soak)]
    if options.case:
        return [CASES[name] for name in options.case]
    if options.brokers == 1:
        return [case for case in CASES.values() if not case.replicated]
    return [case for case in CASES.values() if case.brokers or case.name == "no-fault"]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    console = Console(stderr=True, highlight=False)
    if options.list:
        for case in CASES.values():
            console.print(f"{case.name:26} {case.does}" + (" (three brokers)" if case.replicated else ""))
        return 0
    for asked in (signal.SIGINT, signal.SIGTERM):
        # Also where a shell started it in the background with SIGINT ignored.
        signal.signal(asked, signal.default_int_handler)
    rate = options.rate or (options.records / (options.soak * 60) if options.soak else Scale().rate)
    scale = Scale(options.records, rate, options.partitions, options.workers, options.seed, options.patience)
    console.print(
        f"seed {options.seed}, commit {commit() or 'unknown'}, {options.brokers} broker(s), {scale.workers} workers, "
        f"{scale.partitions} partitions, at least {scale.records} records a case at {scale.rate:.0f}/s"
    )
    began, results = time.monotonic(), []
    wanted = chosen(options)
    for number, case in enumerate(wanted, 1):
        result = one(case, scale, options, console, f"{number}/{len(wanted)} {case.name}")
        results.append(result)
        show(result, console)
    console.print(table(results))
    failed = sum(1 for result in results if result.violations)
    seconds = time.monotonic() - began
    console.print(f"{len(results)} cases, {failed} with violations, {seconds:.0f} s; --seed {options.seed} repeats it")
    print(
        json.dumps(
            {
                "seed": options.seed, "commit": commit(), "brokers": options.brokers, "workers": scale.workers,
                "partitions": scale.partitions, "cases": len(results), "failed": failed, "seconds": round(seconds),
                "records": sum(result.records for result in results),
                "results": [result.summary() for result in results],
            }
        )
    )  # fmt: skip
    return 1 if failed else 0


def one(case: Case, scale: Scale, options: argparse.Namespace, console: Console, title: str) -> Result:
    """Run a case on brokers and in a folder of its own."""
    folder = temporary_folder("engine-faults-")
    kept = False
    try:
        brokers = KafkaCluster(brokers=options.brokers, overrides=case.properties)
        with console.status(f"{title}: starting Kafka") as status, brokers as kafka:
            with arena(case, kafka.bootstrap, folder, scale, kafka) as field:
                result = run(case, field, lambda text: _tell(status, f"{title}: {text}"))
                result.brokers = options.brokers
            kept = bool(result.violations) and options.keep
            if kept:
                console.print(f"logs of {case.name}: {folder}")
            return result
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def _tell(status: Status, text: str) -> None:
    status.update(text)


def show(result: Result, console: Console) -> None:
    faults = ", ".join(f"{count} {name}" for name, count in sorted(result.faults.items())) or "none"
    verdict = "[red]VIOLATED[/]" if result.violations else "[green]holds[/]"
    console.print(
        f"{result.case:26} {verdict}  {result.records} records, {result.verdict.outputs} outputs, "
        f"{result.verdict.dead} dead, {result.verdict.repeated} repeated, {result.seconds:.0f} s; faults: {faults}"
    )
    for text in result.violations:
        console.print(f"    {text}", markup=False)
    for worker, weights in result.memory.items():
        series = " ".join(map(str, weights[:-1]))
        console.print(f"    {worker}: {series} MiB by tenths of its life, most {weights[-1]}")


def table(results: Sequence[Result]) -> Table:
    made = Table(title="engine under faults")
    for column in ("case", "records", "faults", "exit codes", "s", "drained s", "stall: one / all s", "oracle"):
        made.add_column(column)
    for result in results:
        codes = ", ".join(f"{count} x {code}" for code, count in sorted(result.exits.items()))
        made.add_row(
            result.case, str(result.records), str(sum(result.faults.values())), codes, f"{result.seconds:.0f}",
            f"{result.drained:.1f}", f"{result.stall_one:.1f} / {result.stall_all:.1f}",
            "VIOLATED" if result.violations else "holds",
        )  # fmt: skip
    return made


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)

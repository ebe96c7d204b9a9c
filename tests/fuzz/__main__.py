"""`python -m tests.fuzz`: fuzz the parsers, one format after the other. Exit 1 when an input broke something.

python -m tests.fuzz                                   # 20 s for each format
python -m tests.fuzz --format plex --seconds 600       # one of them, ten minutes
python -m tests.fuzz --seconds 600 --keep              # and take what came to something new into the corpus
python -m tests.fuzz --format plex --body broken.body  # one input again, to see what it breaks
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from streams.ingest.hooks import FORMATS
from tests.fuzz import corpus
from tests.fuzz.engines import Run, by_coverage, by_outcome, has_atheris
from tests.fuzz.properties import check


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    formats: list[str] = asked.format or list(FORMATS)
    if asked.body is not None:
        return _again(formats, asked.body)
    with ThreadPoolExecutor(asked.jobs) as pool:
        runs = list(pool.map(lambda format: _run(format, asked), formats))
    return 1 if any(run.failure is not None for run in runs) else 0


def _run(format: str, asked: argparse.Namespace) -> Run:
    if asked.engine == "atheris":
        with tempfile.TemporaryDirectory(prefix="playhead-fuzz-") as folder:
            run = by_coverage(format, seed=asked.seed, seconds=asked.seconds, folder=Path(folder))
    else:
        run = by_outcome(format, seed=asked.seed, seconds=asked.seconds)
    end = "broken" if run.failure is not None else "ok"
    print(
        f"{format:15} {run.engine:8} seed {asked.seed}  {run.inputs:9,} inputs  {len(run.found):5,} new  {end}",
        flush=True,
    )
    if run.failure is not None:
        print(run.message.strip())
        print(f"The input, in base64; save it decoded and run this again with --format {format} --body FILE:")
        print(base64.b64encode(run.failure).decode(), flush=True)
    elif asked.keep:
        print(f"{format:15} corpus of {corpus.keep(format, run.found)}", flush=True)
    return run


def _again(formats: list[str], file: Path) -> int:
    body = file.read_bytes()
    for format in formats:
        print(f"{format}: {', '.join(check(format, body).shape)}")
    return 0


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    description, _, examples = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="a format; may be given again")
    parser.add_argument("--seconds", type=float, default=20, help="time for each format (20)")
    parser.add_argument("--seed", type=int, default=1, help="what the run's choices follow from (1)")
    engines = ("atheris", "outcome")
    parser.add_argument("--engine", choices=engines, default=engines[0] if has_atheris() else engines[1])
    parser.add_argument("--jobs", type=int, default=1, help="formats at the same time (1)")
    parser.add_argument("--keep", action="store_true", help="take inputs of new outcomes into the corpus")
    parser.add_argument("--body", type=Path, metavar="FILE", help="check this one input instead")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

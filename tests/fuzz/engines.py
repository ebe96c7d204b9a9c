"""Two ways to find inputs: coverage-guided by atheris (libFuzzer) where it is installed, else by outcome."""

from __future__ import annotations

import importlib.util
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import corpus
from tests.fuzz.mutate import BODY_MAX, mutate
from tests.fuzz.properties import check

INPUT_SECONDS_MAX = 10
"""One input that takes longer than this hangs; a healthy one takes a few milliseconds."""
MEMORY_MB_MAX = 1024
_EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


@dataclass(frozen=True, slots=True)
class Run:
    """What a run did: `found` reached something new; `failure` broke something, and `message` is what was said."""

    format: str
    engine: str
    inputs: int
    found: tuple[bytes, ...]
    failure: bytes | None = None
    message: str = ""


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def by_outcome(format: str, *, seed: int, seconds: float | None = None, inputs: int | None = None) -> Run:
    """Mutate what is known, and keep what came to another outcome than anything before.

    The same seed and number of inputs give the same run. Ends after `seconds` or `inputs`, whichever is first.
    """
    rng = random.Random(f"{format} {seed}")
    pool = corpus.seeds(format)
    outcomes = {check(format, body) for body in pool}
    found: list[bytes] = []
    until = None if seconds is None else time.monotonic() + seconds
    done = 0
    while (inputs is None or done < inputs) and (until is None or time.monotonic() < until):
        body = mutate(rng.choice(pool), pool, rng)
        done += 1
        try:
            outcome = check(format, body)
        except Exception as exc:  # whatever it is, it is what was looked for
            return Run(format, "outcome", done, tuple(found), body, f"{type(exc).__name__}: {exc}")
        if outcome not in outcomes:
            outcomes.add(outcome)
            pool.append(body)
            found.append(body)
    return Run(format, "outcome", done, tuple(found))


def by_coverage(format: str, *, seed: int, seconds: float, folder: Path) -> Run:
    """libFuzzer in a process of its own, for it ends the process it runs in; its files go into `folder`."""
    found = folder / "found"
    known = _written(folder / "known", corpus.seeds(format))
    found.mkdir()
    options = [f"-max_total_time={max(1, round(seconds))}", f"-seed={seed}", f"-max_len={BODY_MAX}"]
    options += [f"-timeout={INPUT_SECONDS_MAX}", f"-rss_limit_mb={MEMORY_MB_MAX}", f"-artifact_prefix={folder}/"]
    options += ["-print_final_stats=1", "-close_fd_mask=1"]
    done = _child(format, [*options, str(found), str(known)])
    executed = _EXECUTED.search(done.stderr)
    inputs = int(executed.group(1)) if executed else 0
    broken = sorted(path for kind in ("crash", "timeout", "oom") for path in folder.glob(f"{kind}-*"))
    if broken or done.returncode != 0:
        failure = broken[0].read_bytes() if broken else b""
        return Run(format, "atheris", inputs, _read(found), failure, done.stderr[-4000:])
    return Run(format, "atheris", inputs, _read(found))


def _read(folder: Path) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted(folder.iterdir()))


def _written(folder: Path, bodies: list[bytes]) -> Path:
    folder.mkdir()
    for number, body in enumerate(bodies):
        (folder / f"{number:04d}").write_bytes(body)
    return folder


def _child(format: str, options: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz.coverage", format, *options]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)

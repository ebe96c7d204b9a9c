"""Quix Streams as a peer: an environment of its own in the cache folder, installed by hash, made once."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from streams.local import cache_directory
from tests.benchmarks.figures import Absent, Row
from tests.benchmarks.processes import REPOSITORY, NoFigures, Settings, measure

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
INSTALL_PATIENCE = 600.0


@dataclass(frozen=True, slots=True)
class Quix:
    """An environment with Quix in it."""

    python: Path

    def run(self, settings: Settings, *, lent: bool) -> Row:
        """One run on a group and a state directory of its own. ``lent``: with our compiled codec instead of its own."""
        command = [str(self.python), "-m", "tests.benchmarks.quix.worker", json.dumps({**settings, "lent": lent})]
        try:
            return measure(command, environment={"PYTHONPATH": str(REPOSITORY)})
        except NoFigures as error:
            return Absent(str(error))


def prepare(cache: Path | None = None) -> Quix | Absent:
    """The environment for this Python and these requirements, made if it is not there. Absent says what failed."""
    lock = REQUIREMENTS.read_bytes()
    made_of = hashlib.sha256(lock + sys.version.encode()).hexdigest()[:16]
    folder = (cache or cache_directory(os.environ)) / f"quix-bench-{made_of}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.is_file():
        return Quix(python)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        venv.create(folder, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--require-hashes", "-r", REQUIREMENTS],
            capture_output=True, text=True, check=True, timeout=INSTALL_PATIENCE,
        )  # fmt: skip
    except subprocess.CalledProcessError as error:
        return Absent(f"Quix Streams could not be installed: {str(error.stderr)[-300:]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        return Absent(f"Quix Streams could not be installed: {error}")
    ready.touch()
    return Quix(python)

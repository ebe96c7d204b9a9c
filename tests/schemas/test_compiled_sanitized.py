"""The compiled codecs under the sanitizers: nothing out of bounds or undefined, whatever they read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.codec.build import build
from tests.schemas import codec_fuzz
from tests.schemas.implementations import sanitizers

FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
MUTANTS = 3_000

pytestmark = pytest.mark.long


def test_no_input_makes_the_compiled_codecs_touch_what_is_not_theirs(tmp_path: Path) -> None:
    arguments = []
    for plan in codec_fuzz.PLANS:
        folder = tmp_path / plan.package
        folder.mkdir()
        build(plan, folder, flags=FLAGS)
        arguments += ["--folder", f"{plan.package}={folder}"]
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(sanitizers()),
        # Python itself keeps memory until its end; its own allocator would hide what is out of bounds.
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
    }
    done = subprocess.run(
        [sys.executable, "-m", codec_fuzz.__name__, "--count", str(MUTANTS), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    assert f"{MUTANTS} mutated records" in done.stdout

"""Tests that share names of a service stay on one worker of a parallel run, and what failed there is run again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.house.tree import ROOT

TESTS = """
import os
import time

import pytest

pytestmark = [pytest.mark.xdist_group("shared")]


@pytest.mark.parametrize("number", range(6))
def test_one(number):
    time.sleep(0.1)
    assert number != 3 or os.getenv("MENDED")
"""


def run(folder: Path, *arguments: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:randomly", *arguments],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout


def test_a_group_is_on_one_worker_and_what_failed_of_it_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.groups import pytest_runtest_logreport\n")
    (tmp_path / "test_shared.py").write_text(TESTS)
    (tmp_path / "test_free.py").write_text(TESTS.replace('pytest.mark.xdist_group("shared")', ""))

    said = run(tmp_path, "-n", "2", "--dist", "loadgroup")
    assert len(re.findall(r"PASSED test_shared\.py", said)) == 5, said
    assert len(set(re.findall(r"\[(gw\d)\] .*test_shared\.py", said))) == 1, said

    again = run(tmp_path, "--last-failed", "--last-failed-no-failures", "none", MENDED="1")
    assert set(re.findall(r"(\w+)\.py::test_one\[3\] PASSED", again)) == {"test_shared", "test_free"}, again
    assert "2 passed" in again

"""The Makefile and CI are what README says they are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.tree import ROOT, text

TARGETS = [
    "setup", "demo", "up", "test", "test-fast", "lint", "types", "bench", "faults", "fuzz", "ci", "clean", "lock",
]  # fmt: skip


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_make_alone_lists_every_target_with_a_line() -> None:
    shown = make().stdout
    for target in TARGETS:
        assert re.search(rf"^  make {target} +\S", shown, re.M), target


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_can_be_planned(target: str) -> None:
    assert make("--dry-run", target).returncode == 0


def test_an_old_python_is_refused_with_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "a clone"
    (folder / "locks").mkdir(parents=True)
    for name in ("Makefile", "locks/build.txt", "locks/run.txt", "locks/dev.txt", "pyproject.toml"):
        (folder / name).write_text(text(Path(name)))
    old = tmp_path / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = make("demo", f"PYTHON={old}", folder=folder)
    assert done.returncode != 0
    assert "Python 3.11 or newer is needed" in done.stdout
    assert not (folder / ".venv").exists()


def test_ci_uses_the_commands_of_the_readme() -> None:
    readme = text(Path("README.md"))
    commands = re.findall(r"^make ([a-z-]+)", text(Path(".ci/run")), re.M)
    assert {"lint", "types", "test"} <= set(commands)
    for command in commands:
        assert f"make {command}" in readme


def test_nothing_in_the_makefile_is_an_absolute_path() -> None:
    assert not re.search(r"\$\((CURDIR|PWD|abspath|realpath)", text(Path("Makefile")))

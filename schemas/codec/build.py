"""``python -m schemas.codec.build [MODULE …]``: compile the codecs of the plans in these modules (``PLAN``).

Without a module: the events. Does nothing, quickly, when the compiled module of exactly these schemas, classes and
generator is there. Needs Cython, setuptools, a C compiler and Python's headers. Without them the slower codec is
used, and this says so in one line and exits 0; with ``--required``, or with CI set in the environment, it exits 1.
"""

from __future__ import annotations

import argparse
import fcntl
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from schemas.codec.compiled import MODULE_PREFIX as PREFIX
from schemas.codec.compiled import CodecUnavailable, load, module_name, path_of
from schemas.codec.generate import source_of
from schemas.codec.plan import Plan

EVENTS = "schemas.codec.events"


class BuildFailed(Exception):
    """No compiler, no headers, or it refused the source. Nothing was changed."""


def build(plan: Plan, folder: Path | None = None, *, flags: Sequence[str] = ("-O2", "-g0")) -> Path:
    """Compile the codecs of ``plan`` into ``folder`` (its package) unless they are there; the module's path.

    Safe to run at the same time in several processes. Replaces older builds of the same Python. Raises
    Unsupported when no codec can be made of the plan, BuildFailed when it can't be compiled or imported here.
    """
    path = path_of(plan, folder)
    with _alone(path.parent):
        if not path.is_file():
            with tempfile.TemporaryDirectory(prefix="codec-") as temporary:
                built = _compile(module_name(plan), source_of(plan), Path(temporary), flags)
                _publish(built, path)
            suffix = path.name.removeprefix(module_name(plan))
            for older in path.parent.glob(f"{PREFIX}*{suffix}"):
                if older != path:
                    older.unlink(missing_ok=True)
    return path


def _compile(name: str, source: str, folder: Path, flags: Sequence[str]) -> Path:
    """The extension module ``name``, somewhere below ``folder``."""
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
        from setuptools import Distribution, Extension
        from setuptools.command.build_ext import build_ext
        from setuptools.errors import BaseError, CCompilerError
    except ImportError as exc:
        raise BuildFailed(f"{exc.name} is not installed") from exc
    pyx = folder / f"{name}.pyx"
    pyx.write_text(source, encoding="utf-8")
    log = folder / "log"
    try:
        with _quiet(log):
            modules = cythonize(
                [Extension(name, [str(pyx)], extra_compile_args=list(flags), extra_link_args=_link(flags))],
                build_dir=str(folder),
                quiet=True,
                language_level=3,
            )
            command = build_ext(Distribution({"name": name, "ext_modules": modules}))
            command.build_lib = str(folder / "lib")
            command.build_temp = str(folder / "temp")
            command.ensure_finalized()
            command.run()
    except CompileError as exc:
        raise BuildFailed(f"Cython refused the source: {exc}\n{log.read_text(errors='replace')}") from exc
    except (BaseError, CCompilerError, OSError) as exc:
        said = log.read_text(errors="replace")
        raise BuildFailed(f"no working C compiler with Python's headers: {exc}\n{said}") from exc
    return Path(command.get_ext_fullpath(name))


def _publish(built: Path, path: Path) -> None:
    """Put ``built`` in place, seen whole or not at all, after a power cut too: half a library kills who loads it."""
    incoming = path.with_name(f".{path.name}.new")
    with incoming.open("wb") as file:
        file.write(built.read_bytes())
        file.flush()
        os.fsync(file.fileno())
    incoming.replace(path)


@contextmanager
def _quiet(log: Path) -> Iterator[None]:
    """What this process and the compiler say goes to ``log`` meanwhile."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(number, os.dup(number)) for number in (1, 2)]
    try:
        with log.open("wb") as file:
            for number, _ in kept:
                os.dup2(file.fileno(), number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)


def _link(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if flag.startswith("-fsanitize")]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One builder at a time for a folder. The lock dies with its holder and leaves nothing behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m schemas.codec.build", description="Compile the codecs.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"modules with a PLAN (default: {EVENTS})")
    parser.add_argument("--required", action="store_true", help="fail without a compiler (as in CI)")
    options = parser.parse_args(arguments)
    required = options.required or os.environ.get("CI", "").lower() not in ("", "0", "false")
    failed: dict[str, Exception] = {}
    for module in options.modules or [EVENTS]:
        plan: Plan = importlib.import_module(module).PLAN
        try:
            build(plan)
            load(plan)
        except (BuildFailed, CodecUnavailable) as exc:
            failed[plan.package] = exc
    if failed:
        reason = str(next(iter(failed.values())))
        reason = reason if required else reason.partition("\n")[0]
        sys.stderr.write(f"The slower codec is used, not the compiled one, in {' and '.join(failed)}: {reason}\n")
    return 1 if failed and required else 0


if __name__ == "__main__":
    sys.exit(main())

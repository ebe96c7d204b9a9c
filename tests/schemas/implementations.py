"""Which codecs can be tried here: the compiled ones wherever they can be made, and in CI in any case."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from schemas.codec.build import build
from schemas.codec.compiled import Coders, Implementation, by_fastavro, load
from schemas.codec.plan import Plan


@cache
def compiler() -> str | None:
    """The C compiler, when it, Python's headers and Cython are all here."""
    named = (sysconfig.get_config_var("CC") or "cc").split()[0]
    found = shutil.which(os.environ.get("CC", named))
    headers = Path(sysconfig.get_paths()["include"], "Python.h").is_file()
    return found if headers and find_spec("Cython") and find_spec("setuptools") else None


IN_CI = os.environ.get("CI", "").lower() not in ("", "0", "false")
IMPLEMENTATIONS: tuple[Implementation, ...] = ("compiled", "fastavro") if compiler() or IN_CI else ("fastavro",)


@cache
def sanitizers() -> tuple[str, ...]:
    """The libraries to preload for a module built with address and undefined-behaviour checks; none: no such."""
    found = compiler()
    if found is None:
        return ()
    paths = []
    for library in ("libasan.so", "libubsan.so"):
        path = subprocess.run(
            [found, f"-print-file-name={library}"], capture_output=True, text=True, check=False
        ).stdout.strip()
        if not Path(path).is_absolute():
            return ()
        paths.append(path)
    return tuple(paths)


def coders_of(plan: Plan, implementation: Implementation, folder: Path | None = None) -> Coders:
    """The codecs of ``plan``, compiled first when that is what is asked for."""
    if implementation == "fastavro":
        return by_fastavro(plan)
    if folder is None:
        build(plan)
    else:
        build(plan, folder, flags=("-O0", "-g0"))
    return load(plan, folder)

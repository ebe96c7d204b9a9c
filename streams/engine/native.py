"""The modules that every record passes, compiled where that was done (:mod:`.build`); else their sources run.

The compiled ones lie in a folder beside the sources that carries the fingerprint of all sources of this package in its
name: what was made from others is never imported. ENGINE_NATIVE may say ``no``, or ``yes`` to refuse to run without.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import MutableSequence
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

MODULES = ("arrivals", "rows", "overlay", "batch")
VARIABLE = "ENGINE_NATIVE"
PREFIX = "_native_"
PACKAGE = Path(__file__).parent
#: What mypyc calls the library that the compiled modules of one build share.
LIBRARY = "*__mypyc"


def folder() -> Path:
    """Where the compiled modules of exactly these sources and this Python lie, whether they are there or not."""
    made_of = hashlib.sha256(EXTENSION_SUFFIXES[0].encode())
    for source in sorted(PACKAGE.glob("*.py")):
        # Of modules that are not compiled, types and constants are built in.
        made_of.update(f"{source.name}\0".encode() + source.read_bytes())
    return PACKAGE / f"{PREFIX}{sys.implementation.cache_tag}_{made_of.hexdigest()[:16]}"


def prefer(path: MutableSequence[str]) -> bool:
    """Put the compiled modules first in the package's ``path``; return whether there are any.

    Before any of them is imported. Raises ImportError when they are demanded and missing, or can't be loaded.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "yes", "no"):
        raise ImportError(f"{VARIABLE} is yes or no, not {wanted!r}")
    compiled = folder()
    if wanted == "no" or not compiled.is_dir():
        if wanted == "yes":
            raise ImportError(f"{VARIABLE}=yes, and {compiled.name} is not there: run python -m {__package__}.build")
        return False
    for library in compiled.glob(LIBRARY + EXTENSION_SUFFIXES[0]):
        _load(library)
    path.insert(0, str(compiled))
    return True


def _load(library: Path) -> None:
    """Import what the compiled modules look for by its name alone."""
    name = library.name.removesuffix(EXTENSION_SUFFIXES[0])
    spec = spec_from_file_location(name, library, loader=ExtensionFileLoader(name, str(library)))
    assert spec is not None
    assert spec.loader is not None
    try:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ImportError(f"{library} can't be loaded ({error}): delete its folder, or set {VARIABLE}=no") from error
    sys.modules[name] = module


#: Whether what is imported from here on is compiled.
COMPILED = prefer(sys.modules[__name__.rpartition(".")[0]].__path__)

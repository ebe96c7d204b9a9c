"""Which codecs a process uses: the compiled ones when they are there and fit, else fastavro.

A compiled module carries the fingerprint of what it was made from, in its name and inside; any other is never
imported. ``PLAYHEAD_CODEC`` may say ``fastavro``, or ``compiled`` to refuse to run without it. It is read when the
first codec is asked for, not before.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.resources import files
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Literal, cast

from schemas.codec import avro_codec
from schemas.codec.plan import Decode, Encode, Plan

Implementation = Literal["compiled", "fastavro"]

VARIABLE = "PLAYHEAD_CODEC"
MODULE_PREFIX = "_compiled_"
_DIGITS = 16


class CodecUnavailable(Exception):
    """The compiled codec was demanded and is not there, or does not fit. Says what to do."""


@dataclass(frozen=True, slots=True)
class Coders:
    """The codecs of a plan: ``encode`` by record, ``decode`` by record and version of the writer."""

    implementation: Implementation
    encode: Mapping[str, Encode]
    decode: Mapping[tuple[str, int], Decode]


def coders(plan: Plan, implementation: Implementation | None = None) -> Coders:
    """The codecs of ``plan``: those asked for, else what PLAYHEAD_CODEC says, else the fastest there is.

    Raises CodecUnavailable when the compiled ones are demanded and can't be had.
    """
    return _coders(plan, implementation or _wanted())


@cache
def _wanted() -> Implementation | None:
    said = os.environ.get(VARIABLE, "")
    if said in ("compiled", "fastavro"):
        return cast(Implementation, said)
    if said:
        raise CodecUnavailable(f"{VARIABLE} is compiled or fastavro, not {said!r}")
    return None


def _coders(plan: Plan, wanted: Implementation | None) -> Coders:
    key = (plan.fingerprint, wanted)
    if key not in _KNOWN:
        _KNOWN[key] = _choose(plan, wanted)
    return _KNOWN[key]


_KNOWN: dict[tuple[str, Implementation | None], Coders] = {}


def _choose(plan: Plan, wanted: Implementation | None) -> Coders:
    if wanted == "fastavro":
        return by_fastavro(plan)
    try:
        return load(plan)
    except CodecUnavailable:
        if wanted == "compiled":
            raise
        return by_fastavro(plan)


def by_fastavro(plan: Plan) -> Coders:
    """The reference codecs of ``plan``."""
    return Coders(
        "fastavro",
        {coded.name: avro_codec.encoder(coded, plan.limits) for coded in plan.coded},
        {
            (coded.name, version): avro_codec.decoder(coded, version, plan.limits)
            for coded in plan.coded
            for version in coded.writers
        },
    )


def module_name(plan: Plan) -> str:
    """The name of the compiled module of exactly this plan, without its package."""
    return f"{MODULE_PREFIX}{plan.fingerprint[:_DIGITS]}"


def folder_of(plan: Plan) -> Path:
    """Where the compiled module of ``plan`` lies unless said otherwise: in its package."""
    return Path(str(files(plan.package)))


def path_of(plan: Plan, folder: Path | None = None) -> Path:
    """The file of the compiled module for this Python, whether it is there or not."""
    return (folder or folder_of(plan)) / f"{module_name(plan)}{EXTENSION_SUFFIXES[0]}"


def load(plan: Plan, folder: Path | None = None) -> Coders:
    """The compiled codecs of ``plan`` from ``folder``. Raises CodecUnavailable when there are none that fit."""
    path = path_of(plan, folder)
    if not path.is_file():
        raise CodecUnavailable(
            f"{plan.package} has no compiled codec for these schemas and this Python: run python -m schemas.codec.build"
        )
    name = f"{plan.package}.{module_name(plan)}"
    spec = spec_from_file_location(name, path, loader=ExtensionFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    try:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as exc:
        raise CodecUnavailable(f"{path.name} can't be imported: {exc}") from exc
    if plan.fingerprint != module.FINGERPRINT:
        raise CodecUnavailable(f"{path.name} was made from something else")
    sys.modules[name] = module
    return Coders("compiled", module.ENCODERS, module.DECODERS)

"""Building the compiled codecs: only what fits is used, nothing is built twice, and no compiler is no disaster."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas import codec
from schemas.codec import build as building
from schemas.codec import compiled
from schemas.codec.build import BuildFailed, build, main
from schemas.codec.compiled import CodecUnavailable, coders, load, path_of
from schemas.codec.events import PLAN
from schemas.codec.plan import Limits, Plan

OTHER = dataclasses.replace(PLAN, coded=PLAN.coded[:1], limits=Limits(frozenset(), 7, 7, 7))


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The environment as a new process finds it."""
    compiled._wanted.cache_clear()
    yield monkeypatch
    compiled._wanted.cache_clear()


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module whose plan nobody has built."""
    found = types.ModuleType("a_plan_of_tests")
    found.__dict__["PLAN"] = OTHER
    monkeypatch.setitem(sys.modules, found.__name__, found)
    return found.__name__


def test_what_is_up_to_date_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    path = build(PLAN)
    before = path.stat().st_mtime_ns
    monkeypatch.setattr(building, "_compile", None)
    assert build(PLAN) == path
    assert path.stat().st_mtime_ns == before
    assert main([]) == 0


def test_a_codec_of_other_schemas_limits_or_classes_is_never_loaded(tmp_path: Path) -> None:
    assert OTHER.fingerprint != PLAN.fingerprint
    with pytest.raises(CodecUnavailable, match=r"schemas\.codec\.build"):
        load(OTHER)
    assert coders(OTHER).implementation == "fastavro"
    # Not even when it was given the right name.
    shutil.copy(build(PLAN), path_of(OTHER, tmp_path))
    with pytest.raises(CodecUnavailable):
        load(OTHER, tmp_path)


def test_what_is_no_module_at_all_is_not_loaded(tmp_path: Path) -> None:
    path_of(PLAN, tmp_path).write_bytes(b"\0" * 1_000)
    with pytest.raises(CodecUnavailable):
        load(PLAN, tmp_path)


def test_the_codec_in_use_can_be_asked_for_and_chosen(environment: pytest.MonkeyPatch) -> None:
    build(PLAN)
    environment.delenv(compiled.VARIABLE, raising=False)
    assert codec.implementation() == "compiled"
    for wanted in ("fastavro", "compiled"):
        compiled._wanted.cache_clear()
        environment.setenv(compiled.VARIABLE, wanted)
        assert codec.implementation() == wanted


def test_a_codec_that_is_demanded_and_not_there_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv(compiled.VARIABLE, "compiled")
    with pytest.raises(CodecUnavailable, match="run python -m"):
        coders(OTHER)
    compiled._wanted.cache_clear()
    environment.setenv(compiled.VARIABLE, "quick")
    with pytest.raises(CodecUnavailable, match="compiled or fastavro"):
        coders(OTHER)


def test_without_a_compiler_one_line_says_so_and_nothing_fails(
    module: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "/nonexistent/cc")
    monkeypatch.delenv("CI", raising=False)
    assert main([module]) == 0
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("The slower codec is used")
    assert not path_of(OTHER).exists()


def test_without_a_compiler_continuous_integration_fails(
    module: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CC", "/nonexistent/cc")
    monkeypatch.setenv("CI", "true")
    assert main([module]) == 1
    monkeypatch.delenv("CI")
    assert main([module, "--required"]) == 1
    assert "/nonexistent/cc" in capfd.readouterr().err


def test_without_cython_the_reason_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "Cython.Build", None)
    with pytest.raises(BuildFailed, match="Cython"):
        build(OTHER, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_class_that_changed_since_the_build_is_noticed() -> None:
    """The module itself looks again at what it was built for, when it is imported."""
    build(PLAN)
    script = """
import dataclasses, schemas.events as events
from schemas.codec.compiled import CodecUnavailable, load
from schemas.codec.events import PLAN
PLAN.fingerprint
fields = [(field.name, object) for field in dataclasses.fields(events.Conflict)]
events.Conflict = dataclasses.make_dataclass("Conflict", [*fields, ("more", object)], frozen=True, slots=True)
try:
    load(PLAN)
except CodecUnavailable as exc:
    print(exc)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Conflict has changed since this codec was built" in done.stdout


def test_an_older_build_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = build(PLAN)
    monkeypatch.setattr(building, "_compile", lambda *arguments: built)
    path_of(OTHER, tmp_path).write_bytes(b"")
    assert build(PLAN, tmp_path).read_bytes() == built.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [path_of(PLAN).name]


def test_a_plan_has_the_same_fingerprint_in_every_process() -> None:
    again = Plan(PLAN.package, PLAN.coded, PLAN.limits)
    assert again.fingerprint == PLAN.fingerprint

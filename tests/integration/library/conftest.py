"""One Playhead for all tests of this folder, and a source of its own for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.library import house as houses
from tests.integration.library.house import House
from tests.integration.library.library import Library


@pytest.fixture(scope="package")
def house() -> Iterator[House]:
    with houses.house() as made:
        yield made


@pytest.fixture
def library(house: House, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Library]:
    """A source of files with an empty folder, never scanned."""
    made = Library(house, unique_name("music").lower(), tmp_path / "media")
    yield made
    made.close()


@pytest.fixture
def other(house: House, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Library]:
    """One more."""
    made = Library(house, unique_name("other").lower(), tmp_path / "other")
    yield made
    made.close()

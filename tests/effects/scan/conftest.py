"""One worker for the readings of a module: starting one takes a while."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.upstream.files.reading.reader import Reader
from tests.effects.scan.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    root = tmp_path / "media"
    root.mkdir()
    with Reader() as reader:
        yield Desk(root, reader)

"""One whole Playhead for what operators do to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.operators.house import House, house


@pytest.fixture(scope="package")
def playhead() -> Iterator[House]:
    with house() as found:
        yield found

"""One whole Playhead with two media servers of one household, in order, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.library import house as houses
from tests.integration.reconcile.lab import Lab


@pytest.fixture(scope="package")
def lab() -> Iterator[Lab]:
    with houses.house() as house:
        made = Lab(house)
        try:
            yield made
        finally:
            made.close()

"""A cluster of worker processes per test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster


@pytest.fixture
def cluster(kafka_bootstrap: str, topic_prefix: str, tmp_path: Path) -> Iterator[Cluster]:
    """Topics exist, nothing is written, no worker runs."""
    made = Cluster(kafka_bootstrap, topic_prefix, tmp_path)
    made.create_topics()
    yield made
    made.close()

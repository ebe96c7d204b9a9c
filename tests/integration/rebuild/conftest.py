"""The worlds of the projections."""

from __future__ import annotations

from tests.integration.projections.conftest import model_settings, shared_topics, world
from tests.integration.projections.test_library_runner import changed

__all__ = ["changed", "model_settings", "shared_topics", "world"]

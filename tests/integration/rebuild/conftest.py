"""The worlds of the projections."""

from __future__ import annotations

from tests.integration.projections.conftest import model_settings, shared_topics, world

__all__ = ["model_settings", "shared_topics", "world"]

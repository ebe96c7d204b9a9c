"""Worlds in which a symptom is made on purpose, and the command line in them."""

from __future__ import annotations

from tests.integration.caches.conftest import cache_topics, kitchen, valkey, whole_kitchen
from tests.integration.dlq.conftest import input_topics, office
from tests.integration.dlq.test_reread import desks
from tests.integration.projections.conftest import model_settings, shared_topics, world
from tests.integration.projections.test_library_runner import changed

__all__ = [
    "cache_topics",
    "changed",
    "desks",
    "input_topics",
    "kitchen",
    "model_settings",
    "office",
    "shared_topics",
    "valkey",
    "whole_kitchen",
    "world",
]

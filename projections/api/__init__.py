"""The read API over the read models: progress, lists, history and explanations, each with its version."""

from __future__ import annotations

from projections.api.names import Names
from projections.api.read_models import ReadModels
from projections.api.router import api_router

__all__ = ["Names", "ReadModels", "api_router"]

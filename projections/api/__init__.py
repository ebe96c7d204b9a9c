"""The read API over the read models: progress, lists, history, explanations and the library, each with its version."""

from __future__ import annotations

from projections.api.caching import CachedReadModels
from projections.api.caching_library import CachedLibraryModels
from projections.api.change_hub import ChangeHub
from projections.api.changes import changes_router
from projections.api.corrections import corrections_router
from projections.api.library import library_router
from projections.api.library_models import LibraryModels
from projections.api.names import Names
from projections.api.read_models import ReadModels
from projections.api.router import api_router

__all__ = [
    "CachedLibraryModels",
    "CachedReadModels",
    "ChangeHub",
    "LibraryModels",
    "Names",
    "ReadModels",
    "api_router",
    "changes_router",
    "corrections_router",
    "library_router",
]

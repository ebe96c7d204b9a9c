"""How each kind of source is listed: the one place that knows them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import assert_never

from streams.effects.scan.ports import Source
from streams.effects.scan.trees import FileTree
from streams.runtime.clock import Clock
from streams.runtime.errors import Permanent
from streams.runtime.trees import SourceTree
from streams.runtime.upstreams import UpstreamEntry


def source_of(found: SourceTree | UpstreamEntry, clock: Clock) -> Source:
    """The source to scan. Raises Permanent when this build can't list it."""
    match found:
        case SourceTree():
            return FileTree(Path(os.fsdecode(found.path)), clock)
        case UpstreamEntry():
            raise Permanent(f"sources of kind {found.kind} can't be listed", cause="bad_source")
        case _:
            assert_never(found)

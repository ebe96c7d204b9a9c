"""How each kind of source is listed: the one place that knows them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import assert_never

from streams.effects.scan.ports import Source
from streams.effects.scan.servers import server_source
from streams.effects.scan.trees import FileTree
from streams.runtime.clock import Clock
from streams.runtime.trees import SourceTree
from streams.runtime.upstreams import UpstreamEntry


def source_of(found: SourceTree | UpstreamEntry, clock: Clock) -> Source:
    """The source to scan. Connects to nothing."""
    match found:
        case SourceTree():
            return FileTree(Path(os.fsdecode(found.path)), clock)
        case UpstreamEntry():
            return server_source(found, clock)
        case _:
            assert_never(found)

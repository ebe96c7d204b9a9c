"""Where the file trees of sources are, as an operator entered them, and how a source may be scanned."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from streams.runtime.errors import Permanent
from streams.runtime.schedules import LISTED_SERVERS, check_cron, schedule_scans
from streams.runtime.tokens import SyncConnection
from streams.runtime.upstreams import UpstreamEntry, upstream_entry

FILES: Final = "files"
SCANNABLE: Final = (FILES, *LISTED_SERVERS)
"""Kinds of sources that can be listed."""


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A source that is a folder. ``path``: absolute, byte for byte as the file system has it."""

    source_id: str
    path: bytes
    watch: bool

    @property
    def shown(self) -> str:
        """The path for people."""
        return self.path.decode("utf-8", "backslashreplace")


def add_tree(connection: SyncConnection, tree: SourceTree, cron: str | None) -> None:
    """Keep where a source's files are; what was kept before is replaced. ``cron``: when it is scanned by itself, None:
    by default. The source is there already, and the caller commits.

    Raises Permanent for a relative path and for a cron expression that is none.
    """
    if not os.path.isabs(tree.path) or b"\0" in tree.path:
        raise Permanent("a tree's path is absolute", cause="bad_source")
    if cron is not None:
        check_cron(cron)
    connection.execute(
        "INSERT INTO core.source_trees (source_id, path, watch) VALUES (%s, %s, %s)"
        " ON CONFLICT (source_id) DO UPDATE SET path = excluded.path, watch = excluded.watch",
        (tree.source_id, tree.path, tree.watch),
    )
    schedule_scans(connection, tree.source_id, cron)


def list_trees(connection: SyncConnection) -> list[SourceTree]:
    """All trees, by source."""
    rows = connection.execute("SELECT source_id, path, watch FROM core.source_trees ORDER BY source_id").fetchall()
    return [SourceTree(*row) for row in rows]


def scannable(connection: SyncConnection, source_id: str) -> SourceTree | UpstreamEntry:
    """What is listed when this source is scanned. Raises Permanent, saying what to do, when it can't be."""
    row = connection.execute("SELECT kind FROM core.sources WHERE source_id = %s", (source_id,)).fetchone()
    if row is None:
        raise Permanent(f"no source {source_id}: 'playhead source list' shows them", cause="bad_source")
    kind = str(row[0])
    if kind == FILES:
        for tree in list_trees(connection):
            if tree.source_id == source_id:
                return tree
        raise Permanent(
            f"nobody said where the files of {source_id} are: 'playhead source add files {source_id} --path …' does",
            cause="bad_source",
        )
    if kind not in SCANNABLE:
        raise Permanent(f"a source of kind {kind} can't be scanned: only {', '.join(SCANNABLE)}", cause="bad_source")
    entry = upstream_entry(connection, source_id)
    if entry is None:
        raise Permanent(
            f"nobody said where the server of {source_id} is: 'playhead source connect {source_id}' does",
            cause="bad_source",
        )
    return entry

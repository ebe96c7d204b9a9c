"""What the read model knows of a source's files, asked folder by folder over one connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Self

import psycopg

from streams.effects.scan.ports import KnownFile
from streams.runtime.database import DatabaseAway
from streams.runtime.errors import ConfigurationError

# By the hash of the folder: only that has an index, for a path may be longer than an index entry.
_FOLDER: Final = (
    "SELECT path, size, mtime_ns, device, inode FROM api.known_files"
    " WHERE source_id = %s AND sha256(folder) = sha256(%s) AND folder = %s"
)
_FOLDERS: Final = "SELECT DISTINCT folder FROM api.known_files WHERE source_id = %s"
_OF_MEDIA: Final = (
    "SELECT path, size, mtime_ns, device, inode FROM api.known_files WHERE source_id = %s AND media_id = %s"
)
_TRIES: Final = 2


class KnownFiles:
    """The KnownAll over view api.known_files; use as a context manager. ``conninfo``: of a role that may read it.
    Every method raises DatabaseAway."""

    def __init__(self, conninfo: Mapping[str, Any]) -> None:
        self._conninfo = conninfo
        self._connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def folder(self, source_id: str, folder: bytes) -> Mapping[bytes, KnownFile]:
        return {row[0]: KnownFile(*row) for row in self._rows(_FOLDER, (source_id, folder, folder))}

    def folders(self, source_id: str) -> Iterable[bytes]:
        return [row[0] for row in self._rows(_FOLDERS, (source_id,))]

    def of_media(self, source_id: str, media_id: str) -> list[KnownFile]:
        """Where one media lies."""
        return [KnownFile(*row) for row in self._rows(_OF_MEDIA, (source_id, media_id))]

    def _rows(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        for left in reversed(range(_TRIES)):
            try:
                if self._connection is None:
                    # Each question is a statement of its own: no transaction is open while files are read.
                    self._connection = psycopg.connect(**self._conninfo, autocommit=True, prepare_threshold=1)
                return self._connection.execute(query.encode(), values).fetchall()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as exc:
                self._close()
                raise ConfigurationError(
                    f"the database lacks what this build needs ({type(exc).__name__}): run 'playhead migrate'"
                ) from exc
            except (psycopg.OperationalError, psycopg.InterfaceError) as exc:
                self._close()
                # A connection that was cut since the last question: once more on a new one.
                if not left:
                    raise DatabaseAway(f"PostgreSQL does not answer: {type(exc).__name__}") from None
        raise AssertionError("every try returns or raises")

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

"""The file of a backup: a zip of one text per table, as COPY writes it, and a manifest that says what must be in it.

It holds names of people, hashed tokens and the credentials of media servers, so nobody but its owner may read it
(mode 0600). It appears whole under its name or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from streams.runtime.errors import Permanent

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
PIECE_BYTES: Final = 1024 * 1024
MANIFEST_BYTES_MAX: Final = 16 * PIECE_BYTES


@dataclass(frozen=True, slots=True)
class TableCopy:
    """One table of schema core: its rows as COPY's text, of these columns."""

    name: str
    columns: tuple[str, ...]
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SavedOffset:
    """One row of model.offsets."""

    projection: str
    topic: str
    partition: int
    topic_id: str | None
    log_epoch: int
    next_offset: int
    last_causes: dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """``made_at``: RFC 3339, by the database's clock. ``key_check``: of the key that people are hashed with.
    ``model_epoch``: what versions in caches and entity tags began with."""

    made_at: str
    revision: str
    key_check: str
    model_epoch: int
    tables: tuple[TableCopy, ...]
    offsets: tuple[SavedOffset, ...]
    format: int = FORMAT


# What zipfile raises over bytes that are none of its own.
_DAMAGE: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError),
    *(KeyError, TypeError, ValueError, OverflowError),
)


class Writer:
    """Takes tables one after the other, then the manifest."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def table(self, name: str, pieces: Iterator[bytes]) -> tuple[int, str]:
        """Write one table; its number of rows and SHA-256."""
        digest, rows = hashlib.sha256(), 0
        with self._archive.open(_member(name), "w", force_zip64=True) as member:
            for piece in pieces:
                member.write(piece)
                digest.update(piece)
                # COPY's text escapes every line feed inside a value.
                rows += piece.count(b"\n")
        return rows, digest.hexdigest()

    def manifest(self, manifest: Manifest) -> None:
        self._archive.writestr(MANIFEST, json.dumps(asdict(manifest), indent=1))


@contextmanager
def written(path: Path) -> Iterator[Writer]:
    """A new archive at ``path`` when the block ends well, on disk; nothing of it otherwise. Replaces what is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
                yield Writer(archive)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Reader:
    """A verified archive."""

    def __init__(self, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self._archive = archive
        self.manifest = manifest

    def table(self, table: TableCopy) -> Iterator[bytes]:
        """Its text again, in pieces."""
        with self._archive.open(_member(table.name)) as member:
            while piece := member.read(PIECE_BYTES):
                yield piece


@contextmanager
def verified(path: Path) -> Iterator[Reader]:
    """The archive at ``path``, all of it read once and found to be what its manifest says.

    Raises Permanent when it is no backup, of a newer format, or damaged anywhere.
    """
    with ExitStack() as stack:
        try:
            reader = _verify(stack.enter_context(zipfile.ZipFile(path)), path)
        except _DAMAGE as exc:
            raise _damaged(path, type(exc).__name__) from exc
        except OSError as exc:
            raise Permanent(f"{path.name} can't be read: {exc.strerror}", cause="bad_backup") from exc
        yield reader


def _verify(archive: zipfile.ZipFile, path: Path) -> Reader:
    reader = Reader(archive, _manifest(archive))
    for table in reader.manifest.tables:
        digest, rows = hashlib.sha256(), 0
        for piece in reader.table(table):
            digest.update(piece)
            rows += piece.count(b"\n")
        if (digest.hexdigest(), rows) != (table.sha256, table.rows):
            raise _damaged(path, f"{table.name} is not what was written")
    return reader


def _manifest(archive: zipfile.ZipFile) -> Manifest:
    info = archive.getinfo(MANIFEST)
    if info.file_size > MANIFEST_BYTES_MAX:
        raise ValueError("manifest")
    document: dict[str, Any] = json.loads(archive.read(info))
    if int(document["format"]) > FORMAT:
        raise Permanent(
            f"the backup is of format {document['format']}, this build knows {FORMAT}: upgrade Playhead",
            cause="bad_backup",
        )
    return Manifest(
        made_at=str(document["made_at"]),
        revision=str(document["revision"]),
        key_check=str(document["key_check"]),
        model_epoch=int(document["model_epoch"]),
        tables=tuple(TableCopy(**{**one, "columns": tuple(one["columns"])}) for one in document["tables"]),
        offsets=tuple(SavedOffset(**one) for one in document["offsets"]),
    )


def _member(table: str) -> str:
    return f"core/{table}.copy"


def _damaged(path: Path, what: str) -> Permanent:
    return Permanent(f"{path.name} is no backup of Playhead, or damaged: {what}", cause="bad_backup")

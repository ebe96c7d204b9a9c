"""Schema ids, kept on our side: each with the fingerprint it stands for, over restarts, shared by processes.

An id is learned once. When somebody later claims that it means another schema, that is refused: a replaced or
restored registry hands out old ids again, and would silently change what the bytes in the log mean. Without a
registry, events are written with pinned ids, which every build derives from the schema itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.errors import UnknownSchemaId
from schemas.versions import WriterSchema, by_fingerprint, newest, versions

# The wire format's id has 32 bits; registries in Java keep to the positive ones.
ID_MAX = (1 << 31) - 1


class RegistryMismatch(Exception):
    """A registry contradicts what we know: an id with another schema, or a refused schema. Do not start."""


class SchemaIds:
    """Ids this deployment has seen, each with the fingerprint it stands for.

    Holds the pinned ids always and the registry's ids once learned; ``path`` (a JSON object, id → fingerprint)
    keeps the learned ones over restarts. Safe to use from several threads; processes sharing a file merge under
    a file lock, they never overwrite. A reader sees the old file or the new one, never half of one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._pinned = {schema.pinned_id: schema for schema in versions()}
        self._learned: dict[int, str] = {}
        self._writers = dict(self._pinned)
        self._write_ids = {schema.event: schema.pinned_id for schema in versions()}
        self.reload()

    def reload(self) -> None:
        """Take in what other processes have learned since. Raises RegistryMismatch on a contradiction."""
        with self._lock:
            self._take(self._read())

    def learn(self, schema_id: int, fingerprint: str) -> None:
        """Remember that ``schema_id`` stands for ``fingerprint``: durable when this returns.

        Raises RegistryMismatch, and remembers nothing, when the id stood for something else.
        """
        with self._lock:
            if self._learned.get(schema_id) == fingerprint:
                return
            self._hold(schema_id, fingerprint)
            with self._exclusive():
                self._take(self._read())
                self._hold(schema_id, fingerprint)
                self._write({**self._learned, schema_id: fingerprint})
            self._take({schema_id: fingerprint})

    def learned(self) -> dict[int, str]:
        """A copy of id → fingerprint as learned from the registry."""
        with self._lock:
            return dict(self._learned)

    def writer(self, schema_id: int) -> WriterSchema:
        """The pinned schema ``schema_id`` stands for. Raises UnknownSchemaId."""
        try:
            return self._writers[schema_id]
        except KeyError:
            raise UnknownSchemaId(schema_id) from None

    def id_for(self, event: str) -> int:
        """The id to write ``event`` with: the registry's when learned, else the pinned one."""
        return self._write_ids[event]

    def _hold(self, schema_id: int, fingerprint: str) -> None:
        """Raise RegistryMismatch unless ``schema_id`` may stand for ``fingerprint``."""
        if type(schema_id) is not int or not 0 < schema_id <= ID_MAX:
            raise RegistryMismatch(f"{schema_id!r} is no schema id: they are 1 to {ID_MAX}")
        pinned = self._pinned.get(schema_id)
        known = pinned.fingerprint if pinned else self._learned.get(schema_id)
        if known is not None and known != fingerprint:
            raise RegistryMismatch(
                f"schema id {schema_id} stood for {known[:12]}… and now for {fingerprint[:12]}…: the registry was "
                "replaced or restored. Point Playhead at the registry that gave the ids, or restore its storage."
            )

    def _take(self, found: dict[int, str]) -> None:
        for schema_id, fingerprint in found.items():
            self._hold(schema_id, fingerprint)
        for schema_id, fingerprint in found.items():
            self._learned[schema_id] = fingerprint
            writer = by_fingerprint(fingerprint)
            if writer is not None:
                self._writers[schema_id] = writer
                if newest(writer.event) is writer:
                    self._write_ids[writer.event] = schema_id

    def _read(self) -> dict[int, str]:
        if self._path is None:
            return {}
        try:
            stored = json.loads(self._path.read_text(encoding="utf-8"))
            return {int(schema_id): str(fingerprint) for schema_id, fingerprint in stored.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, AttributeError) as exc:
            raise RegistryMismatch(
                f"{self._path} is damaged ({exc}). Restore it; or, if the registry is still the one that gave the "
                "ids, delete it and they are learned again."
            ) from exc

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Keep other processes out while the file is read and written. The lock dies with its holder."""
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_name(self._path.name + ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, ids: dict[int, str]) -> None:
        if self._path is None:
            return
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name, suffix=".new")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({str(schema_id): ids[schema_id] for schema_id in sorted(ids)}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

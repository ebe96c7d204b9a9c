"""Schema ids: who gave them, what they mean, and what to do about one we do not know.

An id is learned once and kept with its fingerprint in a file of ours; when a registry later claims that the
same id means something else, start is refused (a restored or replaced registry hands out old ids again).
Without a registry, events are written with pinned ids, which every build derives from the schema itself.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from schemas.errors import UnknownSchemaId
from schemas.versions import WriterSchema, by_fingerprint, fingerprint_of, newest, subject_of, versions

COMPATIBILITY = "FULL_TRANSITIVE"
_CLIENT_ERROR, _NOT_FOUND, _SERVER_ERROR = 400, 404, 500


class RegistryAway(Exception):
    """The registry did not answer; nothing can be said about the id or schema. Wait and ask again."""


class RegistryMismatch(Exception):
    """The registry contradicts what we know: an id with another schema, or a refused schema. Do not start."""


class SchemaIds:
    """Ids this deployment has seen, each with the fingerprint it stands for.

    Holds the pinned ids always and the registry's ids once learned; ``path`` keeps the learned ones over
    restarts. Safe to use from several threads; processes sharing a file merge, they never overwrite.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._learned: dict[int, str] = {}
        self._writers = {schema.pinned_id: schema for schema in versions()}
        self._write_ids: dict[str, int] = {}
        self.reload()

    def reload(self) -> None:
        """Take in what other processes have learned since. Raises RegistryMismatch on a contradiction."""
        if self._path is None or not self._path.exists():
            return
        stored: dict[str, str] = json.loads(self._path.read_text(encoding="utf-8"))
        with self._lock:
            for schema_id, fingerprint in stored.items():
                self._take(int(schema_id), fingerprint)

    def learn(self, schema_id: int, fingerprint: str) -> None:
        """Remember that ``schema_id`` stands for ``fingerprint``, durably. RegistryMismatch if it did not."""
        with self._lock:
            if self._learned.get(schema_id) == fingerprint:
                return
            self._take(schema_id, fingerprint)
        self.reload()
        with self._lock:
            self._store()

    def _take(self, schema_id: int, fingerprint: str) -> None:
        known = self._learned.get(schema_id)
        if known is not None and known != fingerprint:
            raise RegistryMismatch(
                f"schema id {schema_id} stood for {known[:12]}… and now for {fingerprint[:12]}…: the registry was "
                "replaced or restored. Point Playhead at the registry that gave the ids, or restore its storage."
            )
        self._learned[schema_id] = fingerprint
        writer = by_fingerprint(fingerprint)
        if writer is not None:
            self._writers[schema_id] = writer
            if newest(writer.event) is writer:
                self._write_ids[writer.event] = schema_id

    def _store(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({str(i): self._learned[i] for i in sorted(self._learned)}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(self._path)

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
        return self._write_ids.get(event) or newest(event).pinned_id


@dataclass(frozen=True, slots=True)
class Known:
    """The id is (now) among ours: decode again."""

    writer: WriterSchema


@dataclass(frozen=True, slots=True)
class NewerBuild:
    """The registry knows the id, this build does not: stop, and say upgrade."""

    schema_id: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Nobody:
    """Nobody knows the id: the record is poison."""

    schema_id: int


Resolution = Known | NewerBuild | Nobody


class Registry:
    """A Confluent-compatible schema registry. Every call raises RegistryAway when it does not answer."""

    def __init__(self, url: str, ids: SchemaIds, *, timeout_s: float = 5.0) -> None:
        self._ids = ids
        self._client = SchemaRegistryClient(
            {"url": url, "timeout": timeout_s, "max.retries": 1, "retries.wait.ms": 100}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()

    def register(self) -> dict[str, int]:
        """Register every pinned schema, oldest first, under FULL_TRANSITIVE, and learn the ids.

        Afterwards ``SchemaIds.id_for`` answers with the registry's ids. Registering again changes nothing.
        Raises RegistryMismatch when the registry refuses a schema or contradicts a known id.
        """
        given: dict[str, int] = {}
        with _answers():
            for schema in versions():
                subject = subject_of(schema.event)
                self._client.set_compatibility(subject, COMPATIBILITY)
                schema_id = self._client.register_schema(subject, Schema(schema.text, "AVRO"))
                self._ids.learn(schema_id, schema.fingerprint)
                given[f"{schema.event}.v{schema.version}"] = schema_id
        return given

    def check(self) -> list[str]:
        """What the registry says differently from us, as sentences; empty when all agrees. Changes nothing."""
        problems: list[str] = []
        for schema_id, fingerprint in self._ids.learned().items():
            found = self._fingerprint(schema_id)
            if found is None:
                problems.append(f"schema id {schema_id} is gone from the registry")
            elif found != fingerprint:
                problems.append(f"schema id {schema_id} stands for another schema in the registry now")
        with _answers():
            subjects = set(self._client.get_subjects())
            for schema in versions():
                subject = subject_of(schema.event)
                if subject not in subjects:
                    problems.append(f"{schema.event}.v{schema.version} is not registered: run 'schemas register'")
                elif not self._client.test_compatibility(subject, Schema(schema.text, "AVRO")):
                    problems.append(f"{schema.event}.v{schema.version} is not compatible with subject {subject}")
        return problems

    def confirm(self) -> None:
        """At start: raise RegistryMismatch when a learned id stands for another schema in the registry."""
        for schema_id, fingerprint in self._ids.learned().items():
            found = self._fingerprint(schema_id)
            if found is not None and found != fingerprint:
                raise RegistryMismatch(
                    f"schema id {schema_id} stands for another schema in the registry than when it was learned: the "
                    "registry was replaced or restored. Restore its storage, or point Playhead at the right one."
                )

    def resolve(self, schema_id: int) -> Resolution:
        """What an id we do not know means. Learns it when it is one of our schemas under a new id."""
        fingerprint = self._fingerprint(schema_id)
        if fingerprint is None:
            return Nobody(schema_id)
        self._ids.learn(schema_id, fingerprint)
        writer = by_fingerprint(fingerprint)
        return NewerBuild(schema_id, fingerprint) if writer is None else Known(writer)

    def _fingerprint(self, schema_id: int) -> str | None:
        with _answers():
            try:
                schema = self._client.get_schema(schema_id)
            except SchemaRegistryError as exc:
                if exc.http_status_code == _NOT_FOUND:
                    return None
                raise
        try:
            return fingerprint_of(str(schema.schema_str))
        except ValueError:
            return "not-avro"


@contextmanager
def _answers() -> Iterator[None]:
    """Tell an absent registry from one that objects."""
    try:
        yield
    except SchemaRegistryError as exc:
        if exc.http_status_code >= _SERVER_ERROR or exc.http_status_code < _CLIENT_ERROR:
            raise RegistryAway(f"the schema registry failed: {exc}") from exc
        raise RegistryMismatch(f"the schema registry refused: {exc}") from exc
    except (httpx.HTTPError, OSError) as exc:
        raise RegistryAway(f"the schema registry does not answer: {exc!r}") from exc

"""The schema registry: who gives schema ids, and what to do about one we do not know.

What an id means is kept on our side (``schemas/ids.py``): decoding never asks a registry, and a registry that
later says something else about an id is refused, because it was replaced or restored. It is asked at start, by
``schemas register`` and ``schemas check``, and about an id no record of ours has carried before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import httpx2
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from schemas.ids import RegistryMismatch, SchemaIds
from schemas.versions import WriterSchema, by_fingerprint, fingerprint_of, subject_of, versions

__all__ = [
    "COMPATIBILITY",
    "Known",
    "NewerBuild",
    "Nobody",
    "Registry",
    "RegistryAway",
    "RegistryMismatch",
    "Resolution",
    "SchemaIds",
]

COMPATIBILITY = "FULL_TRANSITIVE"
# Confluent Schema Registry API reference, "Errors": a 404 without one of these is not a registry's answer.
_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND, _LEVEL_NOT_FOUND = 40401, 40402, 40403, 40408
_NOT_FOUND = frozenset({_SUBJECT_NOT_FOUND, _VERSION_NOT_FOUND, _SCHEMA_NOT_FOUND, _LEVEL_NOT_FOUND})
_OBJECTIONS = range(400, 500)
_TRY_LATER = frozenset({404, 408, 425, 429})


class RegistryAway(Exception):
    """The registry gave no answer that makes sense: nothing is known about the id. Wait and ask again."""


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
    """A Confluent-compatible schema registry. Every call raises RegistryAway when it gives no sane answer.

    ``timeout_s`` bounds each wait for the network, seconds; a failed call is tried once more.
    """

    def __init__(self, url: str, ids: SchemaIds, *, timeout_s: float = 5.0) -> None:
        self._ids = ids
        self._client = SchemaRegistryClient(
            {"url": url, "timeout": timeout_s, "max.retries": 1, "retries.wait.ms": 100}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections. The object is of no use afterwards."""
        self._client.close()

    def register(self) -> dict[str, int]:
        """Register every pinned schema, oldest first, under FULL_TRANSITIVE, and learn the ids.

        Returns ``{"<Event>.v<N>": id}``; afterwards ``SchemaIds.id_for`` answers with these. Registering again
        changes nothing. Raises RegistryMismatch when the registry refuses a schema, gives an id that it then
        says is another schema, or contradicts a known id.
        """
        given: dict[str, int] = {}
        for schema in versions():
            subject = subject_of(schema.event)
            self._hold(subject)
            with _answers():
                schema_id = self._client.register_schema(subject, Schema(schema.text, "AVRO"))
            self._learn(schema, schema_id)
            given[_name(schema)] = schema_id
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
        for schema in versions():
            subject = subject_of(schema.event)
            registered = self._lookup(schema)
            if registered is None:
                problems.append(f"{_name(schema)} is not registered as {subject}: run 'playhead schemas register'")
            elif self._ids.learned().get(registered) != schema.fingerprint:
                problems.append(
                    f"{_name(schema)} has id {registered}, not learned yet: run 'playhead schemas register'"
                )
        for subject in sorted({subject_of(schema.event) for schema in versions()}):
            level = self._level(subject)
            if level != COMPATIBILITY:
                problems.append(f"{subject} is held to {level or 'the default level'}, not {COMPATIBILITY}")
        return problems

    def confirm(self) -> list[str]:
        """At start: raise RegistryMismatch when the registry contradicts a learned id; learn ids of our schemas.

        Returns the schemas the registry has no id for (``"<Event>.v<N>"``): those are written with pinned ids.
        Registers nothing.
        """
        for schema_id, fingerprint in self._ids.learned().items():
            found = self._fingerprint(schema_id)
            if found is not None and found != fingerprint:
                raise RegistryMismatch(
                    f"schema id {schema_id} stands for another schema in the registry than when it was learned: the "
                    "registry was replaced or restored. Restore its storage, or point Playhead at the right one."
                )
        missing = []
        for schema in versions():
            registered = self._lookup(schema)
            if registered is None:
                missing.append(_name(schema))
            else:
                self._learn(schema, registered)
        return missing

    def resolve(self, schema_id: int) -> Resolution:
        """What an id we do not know means. Learns it when it is one of our schemas under a new id."""
        fingerprint = self._fingerprint(schema_id)
        if fingerprint is None:
            return Nobody(schema_id)
        writer = by_fingerprint(fingerprint)
        if writer is None:
            return NewerBuild(schema_id, fingerprint)
        self._ids.learn(schema_id, fingerprint)
        return Known(writer)

    def _hold(self, subject: str) -> None:
        """Hold ``subject`` to FULL_TRANSITIVE. Registries were seen to object when two processes say so at once
        (Apicurio: "A rule named 'COMPATIBILITY' already exists"); what counts is how it is held then."""
        if self._level(subject) == COMPATIBILITY:
            return
        try:
            with _answers():
                self._client.set_compatibility(subject, COMPATIBILITY)
        except (RegistryAway, RegistryMismatch):
            if self._level(subject) != COMPATIBILITY:
                raise

    def _learn(self, schema: WriterSchema, schema_id: int) -> None:
        """Learn an id only after the registry, asked for the id alone, gives the same schema back."""
        with _answers():
            self._client.clear_caches()  # type: ignore[no-untyped-call]
        found = self._fingerprint(schema_id)
        if found != schema.fingerprint:
            raise RegistryMismatch(
                f"the registry gave id {schema_id} for {_name(schema)} and "
                f"{'does not know it' if found is None else 'another schema'} when asked for that id"
            )
        self._ids.learn(schema_id, schema.fingerprint)

    def _lookup(self, schema: WriterSchema) -> int | None:
        """The id the registry has for ``schema`` under its subject, or None."""
        with _answers():
            try:
                found = self._client.lookup_schema(subject_of(schema.event), Schema(schema.text, "AVRO")).schema_id
            except SchemaRegistryError as exc:
                if exc.error_code in _NOT_FOUND:
                    return None
                raise
            if not isinstance(found, int):
                raise ValueError("an id that is no number")
            return found

    def _level(self, subject: str) -> str | None:
        with _answers():
            try:
                return str(self._client.get_compatibility(subject))
            except SchemaRegistryError as exc:
                if exc.error_code in _NOT_FOUND:
                    return None
                raise

    def _fingerprint(self, schema_id: int) -> str | None:
        """The fingerprint of what the registry has under ``schema_id``; None when it knows no such id.

        What is not Avro gets a fingerprint of its text, which can't be one of ours.
        """
        with _answers():
            try:
                schema = self._client.get_schema(schema_id)
            except SchemaRegistryError as exc:
                if exc.error_code in _NOT_FOUND:
                    return None
                raise
            text = schema.schema_str
            if not isinstance(text, str):
                raise ValueError("an answer without a schema")
        try:
            return fingerprint_of(text)
        except ValueError:
            return f"not-avro:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _name(schema: WriterSchema) -> str:
    return f"{schema.event}.v{schema.version}"


@contextmanager
def _answers() -> Iterator[None]:
    """Tell an absent or babbling registry from one that objects."""
    try:
        yield
    except SchemaRegistryError as exc:
        status = exc.http_status_code
        if status not in _OBJECTIONS or (status in _TRY_LATER and exc.error_code not in _NOT_FOUND):
            raise RegistryAway(f"the schema registry failed: {_short(exc)}") from exc
        raise RegistryMismatch(f"the schema registry refused: {_short(exc)}") from exc
    # confluent-kafka speaks HTTP through httpx2, whose errors are not those of httpx.
    except (httpx2.HTTPError, OSError) as exc:
        raise RegistryAway(f"the schema registry does not answer: {_short(exc)}") from exc
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        # The client parses answers without checking them; these are what it trips over.
        raise RegistryAway(f"what answers at the schema registry's address is none: {_short(exc)}") from exc


def _short(exc: Exception) -> str:
    text = f"{type(exc).__name__}: {exc}"
    return text if len(text) <= 300 else text[:300] + "…"

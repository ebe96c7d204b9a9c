"""The contract at work: one codec for a process, and what to do about a schema id it does not know."""

from __future__ import annotations

from typing import assert_never

from schemas.codec import Codec
from schemas.errors import Undecodable, UnknownSchemaId
from schemas.events import Event
from schemas.ids import RegistryMismatch, SchemaIds
from schemas.registry import Known, NewerBuild, Nobody, Registry, RegistryAway
from streams.runtime import logs
from streams.runtime.clock import Clock, SystemClock
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.settings import Settings

_NOBODY_TTL_S = 60.0
_NOBODY_IDS_MAX = 1_000

log = logs.get(__name__)


class Contract:
    """Encodes and decodes events; asks the registry only about ids this build has never seen.

    Without a registry the pinned schemas are the whole truth, so an unknown id is poison at once.
    """

    def __init__(self, ids: SchemaIds, registry: Registry | None, clock: Clock | None = None) -> None:
        self._ids = ids
        self._codec = Codec(ids)
        self._registry = registry
        self._clock = clock or SystemClock()
        self._nobody: dict[int, float] = {}

    @classmethod
    def of(cls, settings: Settings) -> Contract:
        """The contract of this process, checked against the registry if that answers.

        Learns the ids under which the registry has our schemas; registers none. Raises ConfigurationError when
        the registry contradicts an id learned before, or the learned ids can't be read or kept.
        """
        try:
            ids = SchemaIds(settings.schema_ids_file)
        except RegistryMismatch as exc:
            raise ConfigurationError(str(exc)) from exc
        except OSError as exc:
            raise ConfigurationError(f"{settings.schema_ids_file} can't be read: {exc.strerror}") from exc
        if settings.registry.url is None:
            return cls(ids, None)
        registry = Registry(settings.registry.url, ids, timeout_s=settings.registry.timeout_s)
        try:
            for name in registry.confirm():
                log.warning("schema_not_registered", schema=name, advice="run 'playhead schemas register'")
        except RegistryAway as exc:
            # Known ids keep their meaning without the registry; restarts must not need it.
            log.warning("registry_away_at_start", error=str(exc), known_ids=len(ids.learned()))
        except RegistryMismatch as exc:
            registry.close()
            raise ConfigurationError(str(exc)) from exc
        except OSError as exc:
            registry.close()
            raise ConfigurationError(f"{settings.schema_ids_file} can't be kept: {exc.strerror}") from exc
        return cls(ids, registry)

    def close(self) -> None:
        """Let go of the registry's connections."""
        if self._registry is not None:
            self._registry.close()

    def encode(self, event: Event) -> bytes:
        """Raises InvalidValue or TooLarge (schemas.errors) when the event breaks the contract's limits."""
        return self._codec.encode(event)

    def decode(self, data: bytes) -> Event:
        """The event in ``data``.

        Raises Permanent for poison, Unavailable while only an absent registry could tell (wait, then call
        again), ConfigurationError when the registry knows the id and this build does not (upgrade).
        """
        try:
            return self._codec.decode(data)
        except Undecodable as exc:
            raise Permanent(str(exc), cause=exc.cause) from exc
        except UnknownSchemaId as exc:
            self._resolve(exc)
        try:
            return self._codec.decode(data)
        except (Undecodable, UnknownSchemaId) as exc:
            raise Permanent(str(exc), cause=exc.cause) from exc

    def _resolve(self, unknown: UnknownSchemaId) -> None:
        """Return when the id has become known; raise what it means otherwise."""
        schema_id = unknown.schema_id
        poison = Permanent(f"nobody knows schema id {schema_id}", cause=unknown.cause)
        try:
            # Another process of this deployment may have learned it since.
            self._ids.reload()
            if schema_id in self._ids.learned():
                self._refuse_newer(schema_id)
                return
            if self._registry is None or self._nobody.get(schema_id, 0.0) > self._clock.monotonic():
                raise poison from unknown
            found = self._registry.resolve(schema_id)
        except RegistryAway as exc:
            raise Unavailable(f"schema id {schema_id} is unknown and the registry is away: waiting for it") from exc
        except RegistryMismatch as exc:
            raise ConfigurationError(str(exc)) from exc
        match found:
            case Known():
                return
            case NewerBuild():
                raise _upgrade(schema_id)
            case Nobody():
                if len(self._nobody) >= _NOBODY_IDS_MAX:
                    self._nobody.clear()
                self._nobody[schema_id] = self._clock.monotonic() + _NOBODY_TTL_S
                raise poison from unknown
            case _:
                assert_never(found)

    def _refuse_newer(self, schema_id: int) -> None:
        try:
            self._ids.writer(schema_id)
        except UnknownSchemaId:
            raise _upgrade(schema_id) from None


def _upgrade(schema_id: int) -> ConfigurationError:
    return ConfigurationError(
        f"a record is written with schema id {schema_id}, which the registry knows and this build does not: "
        "upgrade Playhead, then start it again. Nothing was skipped."
    )

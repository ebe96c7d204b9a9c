"""One machine's Playhead: the embedded services made ready, and the roles that run on them.

``playhead up`` and ``playhead demo`` are this with two faces. Everything is kept in one folder: services,
logs, secrets (readable by the owner only), agents' state, and ``playhead.toml``, with which every other command
finds the running deployment (``PLAYHEAD_CONFIG=<folder>/playhead.toml``).
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr

from streams.local import Addresses, ports
from streams.local.supervisor import Role
from streams.runtime.errors import ConfigurationError
from streams.runtime.settings import (
    CacheSettings,
    HttpSettings,
    IdentitySettings,
    KafkaSettings,
    PlaybackSettings,
    PostgresSettings,
    RegistrySettings,
    Settings,
)
from streams.runtime.settings import (
    Role as DatabaseRole,
)

DATABASE = "playhead"
_DATABASE_ROLES: tuple[DatabaseRole, ...] = get_args(DatabaseRole)
SETTINGS_FILE = "playhead.toml"
OTHER_PROJECTIONS = ("library", "tasks", "dead_letters", "forwarding")
"""Beside that of playback, of which there may be several."""
_SECRET_BYTES = 24

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What may differ between deployments. ``http_port`` None is a free one, chosen when the services run. ``lasting``:
    it is to be quick for hours, not to be there soon."""

    http_port: int | None = 8420
    agents: int = 1
    projectors: int = 1
    workers: int = 1
    session_timeout_s: float = 6.0
    log_level: str = "INFO"
    lasting: bool = False


def prepare(folder: Path, addresses: Addresses, options: Options, say: Say) -> Settings:
    """Make services, schemas, topics, tables and roles ready for the roles to start; returns their settings.

    Repeating it on the same folder changes nothing. ``say`` hears one short sentence a step. Raises
    ConfigurationError when a service is missing or what is stored contradicts this build.
    """
    from projections.migrate import migrate
    from projections.roles import create_roles
    from streams.agents.app import create_changelogs
    from streams.runtime import kafka

    settings = _settings(folder, addresses, options)
    postgres = addresses.postgres
    assert postgres is not None
    say("database roles and tables")
    passwords = {role: settings.postgres.password(role) for role in _DATABASE_ROLES}
    create_roles(postgres.url(), passwords, DATABASE)
    migrate(settings.postgres.conninfo("owner"))
    say("topics")
    kafka.apply_topics(settings.kafka)
    create_changelogs(settings)
    if settings.registry.url is not None:
        say("schemas")
        register_schemas(settings)
    _write_private(folder / SETTINGS_FILE, _toml(settings))
    return settings


def register_schemas(settings: Settings) -> Mapping[str, int]:
    """Register the pinned schemas; returns their ids. Raises ConfigurationError, RegistryAway."""
    from schemas.registry import Registry, RegistryMismatch, SchemaIds

    assert settings.registry.url is not None
    with Registry(settings.registry.url, SchemaIds(settings.schema_ids_file)) as registry:
        try:
            return registry.register()
        except RegistryMismatch as exc:
            raise ConfigurationError(str(exc)) from exc


def roles(settings: Settings, options: Options) -> list[Role]:
    """The processes of this deployment: door with read API, agents, projectors, relay, cache, pollers and workers."""
    from streams.agents.app import AGENTS

    bulk = [agent.name for agent in AGENTS.values() if agent.bulk]
    prompt = [name for name in AGENTS if name not in bulk]
    environment = settings.environment()
    playhead = [sys.executable, "-m", "streams.cli"]
    found = [Role("serve", [*playhead, "serve"], environment)]
    for number in range(1, options.agents + 1):
        name = "agents" if options.agents == 1 else f"agents-{number}"
        found.append(Role(name, [*playhead, "agents", *prompt, "--worker", str(number)], environment))
    # Apart, and each at a lower priority: what they do may wait for reports.
    found += [Role(f"agents-{name}", [*playhead, "agents", name], environment) for name in bulk]
    for number in range(1, options.projectors + 1):
        name = "project" if options.projectors == 1 else f"project-{number}"
        found.append(Role(name, [*playhead, "project"], environment))
    found += [Role(f"project-{name}", [*playhead, "project", name], environment) for name in OTHER_PROJECTIONS]
    found.append(Role("relay", [*playhead, "relay"], environment))
    if settings.cache.url is not None:
        found.append(Role("cache", [*playhead, "cache"], environment))
    # Also when no server is connected yet: it looks for those that are connected later.
    found.append(Role("poll", [*playhead, "poll"], environment))
    for number in range(1, options.workers + 1):
        found.append(Role("work" if options.workers == 1 else f"work-{number}", [*playhead, "work"], environment))
    return found


def _settings(folder: Path, addresses: Addresses, options: Options) -> Settings:
    if addresses.bootstrap is None or addresses.postgres is None:
        raise ConfigurationError("a deployment needs Kafka and PostgreSQL")
    kept = _secrets(folder / "secrets.json")
    return Settings(
        state_dir=folder / "state",
        log_level=options.log_level,
        kafka=KafkaSettings(bootstrap=addresses.bootstrap),
        registry=RegistrySettings(url=addresses.registry_url),
        postgres=PostgresSettings(
            host=addresses.postgres.host,
            port=addresses.postgres.port,
            database=DATABASE,
            sslmode="disable",
            **{f"{role}_password": SecretStr(kept[role]) for role in _DATABASE_ROLES},
        ),
        http=HttpSettings(port=ports.choose() if options.http_port is None else options.http_port),
        identity=IdentitySettings(hash_key=SecretStr(kept["identity"])),
        playback=PlaybackSettings(session_timeout_s=options.session_timeout_s),
        cache=CacheSettings(url=SecretStr(addresses.valkey_url) if addresses.valkey_url else None),
    )


def _secrets(path: Path) -> dict[str, str]:
    """This deployment's secrets, made at first use and kept: the identity key ties people to their history."""
    kept: dict[str, str] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    missing = [name for name in (*_DATABASE_ROLES, "identity") if name not in kept]
    if missing:
        kept |= {name: secrets.token_urlsafe(_SECRET_BYTES) for name in missing}
        _write_private(path, json.dumps(kept))
    return kept


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _toml(settings: Settings) -> str:
    """The settings as TOML, secrets in clear. JSON's strings, numbers and booleans are TOML's too."""

    def line(name: str, value: Any) -> str:
        plain = value.get_secret_value() if isinstance(value, SecretStr) else value
        return f"{name} = {json.dumps(plain if isinstance(plain, int | float | bool) else str(plain))}"

    top: list[str] = []
    sections: list[str] = []
    for name, value in settings.model_dump().items():
        if isinstance(value, Mapping):
            sections.append(f"\n[{name}]")
            sections += [line(key, inner) for key, inner in value.items() if inner is not None]
        elif value is not None:
            top.append(line(name, value))
    return "\n".join(["# Written by playhead up. Holds secrets: keep it private.", *top, *sections]) + "\n"

"""Settings: parsed once, frozen, handed in. Nothing else reads the environment.

Sources, later ones win: defaults below, ``playhead.toml`` (or the file ``PLAYHEAD_CONFIG`` names), environment
variables ``PLAYHEAD_<SECTION>__<NAME>``. A secret may be given as ``…_FILE`` with the path of a file holding
it (Docker and Kubernetes secrets). There are no default secrets: what needs one and has none refuses to start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from streams.runtime.errors import ConfigurationError

PREFIX = "PLAYHEAD_"
DEFAULT_FILE = "playhead.toml"

Role = Literal["owner", "projector", "relay", "reader", "door"]
"""PostgreSQL roles: owner migrates, projector writes read models, relay empties the outbox, reader sees views,
door writes sources, tokens, users and aliases. The login of a role is ``playhead_<role>``."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaSettings(_Section):
    bootstrap: str = "127.0.0.1:9092"
    replication: int = Field(1, ge=1, le=7, description="Replicas of each topic; 1 means a single broker.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = "PLAINTEXT"
    sasl_mechanism: Literal["SCRAM-SHA-512"] = "SCRAM-SHA-512"
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    ssl_ca_location: str | None = None

    def client(self) -> dict[str, Any]:
        """librdkafka settings every client of this cluster shares."""
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.security_protocol,
            "socket.keepalive.enable": True,
        }
        if self.security_protocol == "SASL_SSL":
            if not self.sasl_username or self.sasl_password is None:
                raise ConfigurationError("kafka.sasl_username and kafka.sasl_password are needed for SASL_SSL")
            settings |= {
                "sasl.mechanism": self.sasl_mechanism,
                "sasl.username": self.sasl_username,
                "sasl.password": self.sasl_password.get_secret_value(),
            }
        if self.ssl_ca_location:
            settings["ssl.ca.location"] = self.ssl_ca_location
        return settings


class RegistrySettings(_Section):
    url: str | None = Field(None, description="Confluent-compatible API; none: pinned schemas with pinned ids.")
    timeout_s: float = Field(5.0, gt=0, le=60)


class PostgresSettings(_Section):
    host: str = "127.0.0.1"
    port: int = Field(5432, ge=1, le=65535)
    database: str = "playhead"
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = "prefer"
    owner_password: SecretStr | None = None
    projector_password: SecretStr | None = None
    relay_password: SecretStr | None = None
    reader_password: SecretStr | None = None
    door_password: SecretStr | None = None

    def password(self, role: Role) -> str:
        """The password of ``playhead_<role>``. Raises ConfigurationError when it is not set."""
        secret: SecretStr | None = getattr(self, f"{role}_password")
        if secret is None or not secret.get_secret_value():
            raise ConfigurationError(
                f"no password for database role {role}: set {PREFIX}POSTGRES__{role.upper()}_PASSWORD "
                f"or {PREFIX}POSTGRES__{role.upper()}_PASSWORD_FILE"
            )
        return secret.get_secret_value()

    def conninfo(self, role: Role) -> dict[str, Any]:
        """Keyword arguments for psycopg.connect, for one role."""
        return {
            "host": self.host,
            "port": self.port,
            "dbname": self.database,
            "sslmode": self.sslmode,
            "user": f"playhead_{role}",
            "password": self.password(role),
            "application_name": f"playhead-{role}",
            "connect_timeout": 5,
        }


class HttpSettings(_Section):
    host: str = "127.0.0.1"
    port: int = Field(8420, ge=0, le=65535)
    requests_at_once_max: int = Field(256, ge=1)
    publish_timeout_s: float = Field(5.0, gt=0, le=60, description="Then a report is answered with 503.")


class IdentitySettings(_Section):
    hash_key: SecretStr | None = Field(None, description="Key of the hashes that stand for people in topics.")

    def key(self) -> bytes:
        """The key of identity hashes, at least 16 bytes. Raises ConfigurationError."""
        value = self.hash_key.get_secret_value().encode() if self.hash_key else b""
        if len(value) < 16:
            raise ConfigurationError(
                f"{PREFIX}IDENTITY__HASH_KEY (or …_FILE) must be set to at least 16 random characters, and kept: "
                "it ties people to their history"
            )
        return value


class MetricsSettings(_Section):
    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65535, description="0: a free port, written to the log.")


class PlaybackSettings(_Section):
    policy: Literal["playthrough", "furthest"] = "playthrough"
    batch_records_max: int = Field(2_000, ge=1, le=100_000)
    session_timeout_s: float = Field(6.0, ge=1, le=300)


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", frozen=True, extra="ignore", case_sensitive=False
    )

    state_dir: Path = Path("data/state")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    failpoints: str = ""
    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    postgres: PostgresSettings = PostgresSettings()
    http: HttpSettings = HttpSettings()
    identity: IdentitySettings = IdentitySettings()
    metrics: MetricsSettings = MetricsSettings()
    playback: PlaybackSettings = PlaybackSettings()

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def schema_ids_file(self) -> Path:
        return self.state_dir / "schema-ids.json"

    @classmethod
    def load(cls, file: Path | None = None) -> Settings:
        """The settings of this process. Raises ConfigurationError with one line per wrong value."""
        named = file or (Path(os.environ[f"{PREFIX}CONFIG"]) if f"{PREFIX}CONFIG" in os.environ else None)
        if named is not None and not named.is_file():
            raise ConfigurationError(f"the settings file {named} does not exist")
        toml = named or Path(DEFAULT_FILE)

        class Loaded(cls):  # type: ignore[valid-type,misc]
            @classmethod
            def settings_customise_sources(
                cls,
                settings_cls: type[BaseSettings],
                init_settings: PydanticBaseSettingsSource,
                env_settings: PydanticBaseSettingsSource,
                dotenv_settings: PydanticBaseSettingsSource,
                file_secret_settings: PydanticBaseSettingsSource,
            ) -> tuple[PydanticBaseSettingsSource, ...]:
                del dotenv_settings, file_secret_settings
                return (
                    init_settings,
                    _SecretFiles(settings_cls),
                    env_settings,
                    TomlConfigSettingsSource(settings_cls, toml),
                )

        try:
            loaded = Loaded()
            # Plain Settings again: the class above exists only to name the file.
            settings = cls.model_construct(**{name: getattr(loaded, name) for name in cls.model_fields})
            return settings
        except ValidationError as exc:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors(include_input=False))
            raise ConfigurationError(f"settings: {wrong}") from None
        except ValueError as exc:
            raise ConfigurationError(f"settings: {exc}") from None

    def redacted(self) -> dict[str, Any]:
        """All values as JSON types, secrets as ``**********``, for the log line printed at start."""
        shown: dict[str, Any] = self.model_dump(mode="json")
        return shown

    def environment(self) -> dict[str, str]:
        """These settings as environment variables for a child process, secrets in clear."""
        out: dict[str, str] = {}

        def walk(prefix: str, values: Mapping[str, Any]) -> None:
            for name, value in values.items():
                key = f"{prefix}{name.upper()}"
                if isinstance(value, Mapping):
                    walk(f"{key}__", value)
                elif isinstance(value, SecretStr):
                    out[key] = value.get_secret_value()
                elif value is not None:
                    out[key] = str(value)

        walk(PREFIX, self.model_dump())
        return out


class _SecretFiles(PydanticBaseSettingsSource):
    """``PLAYHEAD_POSTGRES__OWNER_PASSWORD_FILE=/run/secrets/x`` gives postgres.owner_password."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        del field
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for variable, path in os.environ.items():
            upper = variable.upper()
            if not (upper.startswith(PREFIX) and upper.endswith("_FILE")):
                continue
            *sections, name = upper[len(PREFIX) : -len("_FILE")].lower().split("__")
            section = Settings.model_fields.get(sections[0]) if len(sections) == 1 else None
            if section is None or name not in getattr(section.annotation, "model_fields", {}):
                continue
            try:
                found.setdefault(sections[0], {})[name] = Path(path).read_text(encoding="utf-8").strip()
            except OSError as exc:
                raise ValueError(f"{variable} names {path}, which can't be read: {exc.strerror}") from exc
        return found

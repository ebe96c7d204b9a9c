"""Settings: parsed once, frozen, handed in. Nothing else reads the environment.

Sources, later ones win: defaults below, ``playhead.toml`` (or the file ``PLAYHEAD_CONFIG`` names), environment
variables ``PLAYHEAD_<SECTION>__<NAME>``. A secret may be given as ``…_FILE`` with the path of a file holding
it (Docker and Kubernetes secrets). There are no default secrets: what needs one and has none, or one that
everybody knows, refuses to start. A misspelt name is refused, never ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from streams.runtime.errors import ConfigurationError

PREFIX = "PLAYHEAD_"
DEFAULT_FILE = "playhead.toml"
_FILE_SUFFIX = "_file"
_SEPARATOR = "__"

SECRET_CHARS_MIN = 8
_WELL_KNOWN = frozenset(
    {"changeme", "change-me", "password", "password1", "passw0rd", "12345678", "postgres", "playhead", "secret123"}
)

Role = Literal["owner", "projector", "relay", "reader", "door", "worker"]
"""PostgreSQL roles: owner migrates, projector writes read models, relay empties the outbox, reader sees views,
door writes sources, tokens, users and aliases. The login of a role is ``playhead_<role>``."""


class _Section(BaseModel):
    # hide_input: a wrong value is never repeated, it may be a secret in the wrong place.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def usable_secret(secret: SecretStr | None, what: str, variable: str, *, chars_min: int = SECRET_CHARS_MIN) -> str:
    """The text of ``secret``. Raises ConfigurationError, naming ``variable``, when it is none, short or well known."""
    value = secret.get_secret_value() if secret else ""
    if not value:
        raise ConfigurationError(f"no {what}: set {variable} or {variable}_FILE")
    if len(value) < chars_min or value.lower() in _WELL_KNOWN:
        raise ConfigurationError(
            f"the {what} is too short or well known: set {variable} to {chars_min}+ random characters"
        )
    return value


class KafkaSettings(_Section):
    bootstrap: str = Field("127.0.0.1:9092", description="Brokers, host:port, comma-separated.")
    replication: int = Field(1, ge=1, le=7, description="Replicas of each topic; 1 means a single broker.")
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] = Field(
        "PLAINTEXT", description="PLAINTEXT, SSL or SASL_SSL."
    )
    sasl_mechanism: Literal["SCRAM-SHA-512"] = Field("SCRAM-SHA-512", description="The only one, and with TLS only.")
    sasl_username: str | None = Field(None, description="Needed for SASL_SSL.")
    sasl_password: SecretStr | None = Field(None, description="Needed for SASL_SSL.")
    ssl_ca_location: str | None = Field(None, description="File with the certificates to trust; none: the system's.")

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
    timeout_s: float = Field(5.0, gt=0, le=60, description="Longest wait for the network, seconds.")

    @field_validator("url")
    @classmethod
    def _http(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("an address that begins with http:// or https:// is needed")
        return value


class PostgresSettings(_Section):
    host: str = Field("127.0.0.1", description="Address of PostgreSQL (18).")
    port: int = Field(5432, ge=1, le=65535, description="Its port.")
    database: str = Field("playhead", description="Made by migrate when it is given a superuser.")
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] = Field(
        "prefer", description="verify-full over a network."
    )
    owner_password: SecretStr | None = Field(None, description="Of login playhead_owner; used by migrate.")
    projector_password: SecretStr | None = Field(None, description="Of login playhead_projector; used by project.")
    relay_password: SecretStr | None = Field(None, description="Of login playhead_relay; used by relay.")
    reader_password: SecretStr | None = Field(None, description="Of login playhead_reader; used by serve.")
    door_password: SecretStr | None = Field(None, description="Of login playhead_door; used by serve, source, token.")
    worker_password: SecretStr | None = Field(None, description="Of login playhead_worker; used by work.")

    def password(self, role: Role) -> str:
        """The password of ``playhead_<role>``. Raises ConfigurationError when it is not set or well known."""
        secret: SecretStr | None = getattr(self, f"{role}_password")
        return usable_secret(secret, f"password for database role {role}", f"{PREFIX}POSTGRES__{role.upper()}_PASSWORD")

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
    host: str = Field("127.0.0.1", description="Address serve listens on.")
    port: int = Field(8420, ge=0, le=65535, description="0: a free one.")
    requests_at_once_max: int = Field(256, ge=1, description="More are answered 503.")
    requests_per_token_s: float = Field(500.0, ge=0, description="More are answered 429; 0: no limit.")
    requests_per_address_s: float = Field(
        1_000.0, ge=0, description="The same for one address; behind a proxy all have its address."
    )
    publish_timeout_s: float = Field(5.0, gt=0, le=60, description="Then a report goes to the spool.")


class SpoolSettings(_Section):
    bytes_max: int = Field(512 * 2**20, ge=0, description="What the spool of one process may hold; then 503.")
    records_max: int = Field(500_000, ge=0, description="The same in reports; 0: no spool, 503 at once.")


class IdentitySettings(_Section):
    hash_key: SecretStr | None = Field(None, description="Key of the hashes that stand for people in topics.")

    def key(self) -> bytes:
        """The key of identity hashes, at least 16 bytes. Raises ConfigurationError.

        It must be kept: it ties people to their history.
        """
        return usable_secret(
            self.hash_key, "key of identity hashes", f"{PREFIX}IDENTITY__HASH_KEY", chars_min=16
        ).encode()


class MetricsSettings(_Section):
    host: str = Field("127.0.0.1", description="Address of /metrics of every role but serve.")
    port: int = Field(0, ge=0, le=65535, description="0: a free port, written to the log.")


class PlaybackSettings(_Section):
    policy: Literal["playthrough", "furthest"] = Field(
        "playthrough", description="What wins when devices disagree: playthrough or furthest."
    )
    batch_records_max: int = Field(2_000, ge=1, le=100_000, description="Reports in one transaction.")
    session_timeout_s: float = Field(6.0, ge=1, le=300, description="A silent worker loses its partitions after it.")


class PollSettings(_Section):
    sockets: bool = Field(True, description="Listen to the push channels of servers that have one.")
    news_every_s: float = Field(1.0, ge=0.1, le=3_600, description="What they say makes a poll so often at most.")


class CacheSettings(_Section):
    url: SecretStr | None = Field(
        None, description="Valkey, valkey://:password@host:6379/0; none: every read asks PostgreSQL."
    )


class Settings(BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter=_SEPARATOR,
        frozen=True,
        extra="forbid",
        case_sensitive=False,
        hide_input_in_errors=True,
    )

    state_dir: Path = Field(
        Path("data/state"), description="Agents' tables and schema ids (rebuilt when lost), and the door's spool."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="DEBUG INFO WARNING ERROR.")
    failpoints: str = Field("", description="For tests: where to fail on purpose (streams/runtime/failpoints.py).")
    kafka: KafkaSettings = KafkaSettings()
    registry: RegistrySettings = RegistrySettings()
    postgres: PostgresSettings = PostgresSettings()
    http: HttpSettings = HttpSettings()
    spool: SpoolSettings = SpoolSettings()
    identity: IdentitySettings = IdentitySettings()
    metrics: MetricsSettings = MetricsSettings()
    playback: PlaybackSettings = PlaybackSettings()
    poll: PollSettings = PollSettings()
    cache: CacheSettings = CacheSettings()

    @field_validator("state_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @property
    def spool_dir(self) -> Path:
        """Where accepted reports wait for Kafka or PostgreSQL: the one part of state_dir that nothing rebuilds."""
        return self.state_dir / "spool"

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
                del env_settings, dotenv_settings, file_secret_settings
                return (
                    init_settings,
                    _SecretFiles(settings_cls),
                    _Environment(settings_cls),
                    TomlConfigSettingsSource(settings_cls, toml),
                )

        wrong = list(_misspelt(os.environ))
        if wrong:
            raise ConfigurationError(f"settings: no such name: {', '.join(sorted(wrong))}")
        try:
            loaded = Loaded()
            # Plain Settings again: the class above exists only to name the file.
            return cls.model_construct(**{name: getattr(loaded, name) for name in cls.model_fields})
        except ValidationError as exc:
            lines = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in exc.errors(include_input=False))
            raise ConfigurationError(f"settings: {lines}") from None
        except ValueError as exc:
            raise ConfigurationError(f"settings: {exc}") from None

    def redacted(self) -> dict[str, Any]:
        """All values as JSON types, secrets as ``**********``, for the log line printed at start."""
        shown: dict[str, Any] = self.model_dump(mode="json")
        if self.registry.url:
            shown["registry"]["url"] = without_password(self.registry.url)
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


def described() -> list[tuple[str, str, str]]:
    """(variable, default, what it is for) of every setting, in order. A secret's variable ends in ``[_FILE]``."""
    found: list[tuple[str, str, str]] = []
    for section, holder in Settings.model_fields.items():
        inner = getattr(holder.annotation, "model_fields", None)
        for name, field in (inner or {"": holder}).items():
            variable = f"{PREFIX}{section}{_SEPARATOR if inner else ''}{name}".upper()
            secret = field.annotation == SecretStr | None
            default = "" if field.default in (None, "") else str(field.default)
            found.append((f"{variable}[_FILE]" if secret else variable, default, field.description or ""))
    return found


def without_password(url: str) -> str:
    """``url`` with its user and password, if it has any, replaced by asterisks."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc="**********@" + parts.netloc.rpartition("@")[2]))


def _setting(variable: str) -> tuple[str, str, bool] | None:
    """(section, name, from a file) of ``PLAYHEAD_<SECTION>__<NAME>[_FILE]``; None for other variables."""
    lower = variable.lower()
    if not lower.startswith(PREFIX.lower()) or _SEPARATOR not in lower:
        return None
    section, _, name = lower[len(PREFIX) :].partition(_SEPARATOR)
    return section, name.removesuffix(_FILE_SUFFIX), name.endswith(_FILE_SUFFIX)


def _misspelt(environment: Mapping[str, str]) -> Iterator[str]:
    for variable in environment:
        match _setting(variable):
            case (section, name, from_file):
                kind = Settings.model_fields[section].annotation if section in Settings.model_fields else None
                field = getattr(kind, "model_fields", {}).get(name)
                if field is None or (from_file and field.annotation != SecretStr | None):
                    yield variable


class _Environment(EnvSettingsSource):
    """Variables as they are; those that name a file are read by _SecretFiles."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name: value for name, value in super()._load_env_vars().items() if not name.endswith(_FILE_SUFFIX)}


class _SecretFiles(PydanticBaseSettingsSource):
    """``PLAYHEAD_POSTGRES__OWNER_PASSWORD_FILE=/run/secrets/x`` gives postgres.owner_password."""

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        del field
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for variable, path in os.environ.items():
            match _setting(variable):
                case (section, name, True):
                    try:
                        text = Path(path).read_text(encoding="utf-8").strip()
                    except (OSError, UnicodeDecodeError) as exc:
                        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8"
                        raise ValueError(f"{variable} names {path}, which can't be read: {reason}") from exc
                    found.setdefault(section, {})[name] = text
        return found

"""Settings: from defaults, file and environment; misspelt, missing and well-known values are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from streams.runtime.errors import ConfigurationError
from streams.runtime.settings import (
    HttpSettings,
    IdentitySettings,
    KafkaSettings,
    PostgresSettings,
    RegistrySettings,
    Settings,
    without_password,
)


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("PLAYHEAD_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def test_without_anything_the_defaults_bind_loopback_and_hold_no_secret() -> None:
    settings = Settings.load()
    assert settings.http.host == settings.metrics.host == "127.0.0.1"
    assert settings.kafka.bootstrap.startswith("127.0.0.1")
    assert settings.identity.hash_key is None
    assert all(getattr(settings.postgres, f"{role}_password") is None for role in ("owner", "projector", "door"))


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "playhead.toml").write_text('[http]\nport = 1111\nhost = "::1"\n[kafka]\nbootstrap = "file:1"\n')
    monkeypatch.setenv("PLAYHEAD_HTTP__PORT", "2222")
    settings = Settings.load()
    assert (settings.http.port, settings.http.host, settings.kafka.bootstrap) == (2222, "::1", "file:1")


def test_a_named_file_is_used_and_must_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = tmp_path / "with a space.toml"
    named.write_text("[http]\nport = 3333\n")
    assert Settings.load(named).http.port == 3333
    monkeypatch.setenv("PLAYHEAD_CONFIG", str(named))
    assert Settings.load().http.port == 3333
    with pytest.raises(ConfigurationError, match="does not exist"):
        Settings.load(tmp_path / "absent.toml")


@pytest.mark.parametrize(
    "name",
    [
        "PLAYHEAD_KAFAK__BOOTSTRAP",
        "PLAYHEAD_KAFKA__BOOTSTRAPS",
        "PLAYHEAD_POSTGRES__OWNR_PASSWORD_FILE",
        "PLAYHEAD_KAFKA__BOOTSTRAP_FILE",
        "playhead_http__prot",
    ],
)
def test_a_misspelt_variable_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigurationError, match=name):
        Settings.load()


@pytest.mark.parametrize("text", ["[kafak]\nbootstrap='x'\n", "[kafka]\nbootstraps='x'\n", "nonsense='x'\n"])
def test_a_misspelt_name_in_the_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "playhead.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"Extra inputs|not permitted"):
        Settings.load()


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "playhead.toml").write_text("[kafka\n")
    with pytest.raises(ConfigurationError, match="settings"):
        Settings.load()


def test_a_secret_comes_from_the_file_a_variable_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t-and-long\n")
    monkeypatch.setenv("PLAYHEAD_POSTGRES__OWNER_PASSWORD_FILE", str(secret))
    settings = Settings.load()
    assert settings.postgres.password("owner") == "s3cr3t-and-long"
    assert settings.postgres.conninfo("owner")["password"] == "s3cr3t-and-long"


def test_a_secret_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLAYHEAD_IDENTITY__HASH_KEY_FILE", str(tmp_path / "absent"))
    with pytest.raises(ConfigurationError, match=r"PLAYHEAD_IDENTITY__HASH_KEY_FILE.*No such file"):
        Settings.load()


@pytest.mark.parametrize("value", ["", "changeme", "Password", "short"])
def test_an_empty_short_or_well_known_password_is_refused(value: str) -> None:
    postgres = PostgresSettings(reader_password=SecretStr(value))
    with pytest.raises(ConfigurationError, match="PLAYHEAD_POSTGRES__READER_PASSWORD"):
        postgres.conninfo("reader")


def test_a_hash_key_has_sixteen_characters_at_least() -> None:
    assert IdentitySettings(hash_key=SecretStr("k" * 16)).key() == b"k" * 16
    for value in (None, SecretStr(""), SecretStr("k" * 15)):
        with pytest.raises(ConfigurationError, match="PLAYHEAD_IDENTITY__HASH_KEY"):
            IdentitySettings(hash_key=value).key()


def test_a_wrong_value_is_named_and_never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_HTTP__PORT", "my-secret-in-the-wrong-place")
    with pytest.raises(ConfigurationError, match=r"http\.port") as caught:
        Settings.load()
    assert "my-secret" not in str(caught.value)


def test_a_section_given_as_one_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_KAFKA", "localhost:9092")
    with pytest.raises(ConfigurationError, match="kafka"):
        Settings.load()


def test_settings_are_frozen() -> None:
    settings = Settings.load()
    for holder, name in ((settings, "log_level"), (settings.kafka, "bootstrap")):
        with pytest.raises(ValidationError):
            setattr(holder, name, "DEBUG")


def test_redacted_shows_everything_but_secrets() -> None:
    settings = Settings(
        postgres=PostgresSettings(owner_password=SecretStr("hidden-1")),
        identity=IdentitySettings(hash_key=SecretStr("hidden-2")),
        kafka=KafkaSettings(sasl_password=SecretStr("hidden-3")),
        registry=RegistrySettings(url="https://me:hidden-4@registry:8081/apis"),
    )
    for shown in (str(settings.redacted()), repr(settings)):
        for secret in ("hidden-1", "hidden-2", "hidden-3"):
            assert secret not in shown
    assert settings.redacted()["registry"]["url"] == "https://**********@registry:8081/apis"
    assert settings.redacted()["http"]["port"] == HttpSettings().port


def test_a_url_without_a_password_is_shown_as_it_is() -> None:
    assert without_password("http://registry:8081") == "http://registry:8081"


def test_a_child_process_gets_the_same_settings_by_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(
        state_dir=Path("a place"),
        http=HttpSettings(port=0),
        postgres=PostgresSettings(owner_password=SecretStr("a-good-password")),
        registry=RegistrySettings(url="http://127.0.0.1:1"),
    )
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert Settings.load().model_dump() == settings.model_dump()


def test_sasl_needs_a_name_and_a_password_and_goes_with_tls_only() -> None:
    with pytest.raises(ConfigurationError, match="sasl_username"):
        KafkaSettings(security_protocol="SASL_SSL").client()
    client = KafkaSettings(
        security_protocol="SASL_SSL", sasl_username="u", sasl_password=SecretStr("p"), ssl_ca_location="/ca.pem"
    ).client()
    assert client["sasl.mechanism"] == "SCRAM-SHA-512"
    assert client["ssl.ca.location"] == "/ca.pem"
    with pytest.raises(ValidationError):
        KafkaSettings.model_validate({"security_protocol": "SASL_PLAINTEXT"})

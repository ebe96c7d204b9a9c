"""A deployment without roles: its own database, the shared broker, and settings in the environment."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from pydantic import SecretStr

from projections.migrate import migrate
from projections.roles import create_roles
from schemas.topics import IDENTITY_USERS, PLAYBACK_REPORTED
from streams.local import PostgresAddress
from streams.runtime.kafka import apply_topics
from streams.runtime.settings import IdentitySettings, KafkaSettings, Settings
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.stack import Database


@pytest.fixture
def settings(
    postgres_admin: PostgresAddress,
    database: Database,
    kafka_bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Settings:
    """Settings of a fresh, migrated database and a broker with the door's topics; commands find them too."""
    apply_topics(KafkaSettings(bootstrap=kafka_bootstrap), [PLAYBACK_REPORTED, IDENTITY_USERS])
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    made = settings_for(kafka_bootstrap, postgres_admin, database.name).model_copy(
        update={
            "state_dir": tmp_path / "state",
            "identity": IdentitySettings(hash_key=SecretStr(secrets.token_hex(16))),
        }
    )
    migrate(made.postgres.conninfo("owner"))
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made

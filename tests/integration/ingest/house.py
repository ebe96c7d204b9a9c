"""Settings, tables and an application for tests with real servers."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from fastapi import FastAPI
from pydantic import SecretStr
from sqlalchemy import create_engine

from streams.ingest.http import ingest_router
from streams.ingest.wiring import Ingest
from streams.runtime.contract import Contract
from streams.runtime.database import Database as DoorDatabase
from streams.runtime.edge import Limits
from streams.runtime.settings import (
    HttpSettings,
    IdentitySettings,
    KafkaSettings,
    PostgresSettings,
    Settings,
    SpoolSettings,
)
from streams.runtime.tables import metadata
from streams.runtime.tokens import create_source, create_token
from streams.runtime.web import build_app
from tests.stack import Database


def conninfo_of(database: Database) -> dict[str, Any]:
    """As Settings.postgres.conninfo gives it, but of the test's superuser."""
    address = database.address
    return {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "password": address.password,
        "dbname": database.name,
        "connect_timeout": 5,
    }


def make_core(conninfo: Mapping[str, Any]) -> None:
    """The door's tables, two sources, and a library in which nothing is known."""
    with psycopg.connect(**conninfo, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS core")
        connection.execute("CREATE SCHEMA IF NOT EXISTS api")
        connection.execute(
            "CREATE TABLE api.media_facts (media_id text, media_kind text, duration_ms bigint, source_id text)"
        )
        connection.execute("CREATE TABLE api.media_names (media_id text, source_id text, upstream_id text)")
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(**conninfo))
        metadata.create_all(engine)
        engine.dispose()
        create_source(connection, "home", "native", "Home")
        create_source(connection, "jelly", "jellyfin", "Jelly")


def settings_of(
    bootstrap: str,
    conninfo: Mapping[str, Any],
    folder: Path,
    *,
    timeout_s: float = 5.0,
    spool_records_max: int = 100_000,
    hash_key: str | None = None,
) -> Settings:
    """Settings of a door; the PostgreSQL user of ``conninfo`` is put in by ``open_ingest``."""
    password = SecretStr(secrets.token_hex(16))
    return Settings(
        state_dir=folder,
        kafka=KafkaSettings(bootstrap=bootstrap),
        postgres=PostgresSettings(
            host=conninfo["host"], port=conninfo["port"], database=conninfo["dbname"], door_password=password
        ),
        identity=IdentitySettings(hash_key=SecretStr(hash_key or secrets.token_hex(16))),
        http=HttpSettings(publish_timeout_s=timeout_s, requests_per_token_s=0),
        spool=SpoolSettings(records_max=spool_records_max),
    )


class House:
    """An ingest over real servers, its application, and a report token of source ``home``."""

    def __init__(
        self,
        bootstrap: str,
        conninfo: Mapping[str, Any],
        folder: Path,
        *,
        timeout_s: float = 5.0,
        spool_records_max: int = 100_000,
        hash_key: str | None = None,
    ) -> None:
        settings = settings_of(
            bootstrap, conninfo, folder, timeout_s=timeout_s, spool_records_max=spool_records_max, hash_key=hash_key
        )

        class AsTester(PostgresSettings):
            def conninfo(self, role: str) -> dict[str, Any]:
                return dict(conninfo)

        settings = settings.model_copy(update={"postgres": AsTester(**settings.postgres.model_dump())})
        self.settings = settings
        self.ingest = Ingest(settings, Contract.of(settings))
        self.database: DoorDatabase = self.ingest.database
        self.app: FastAPI = build_app("test", checks=self.ingest.checks, limits=Limits(64))
        self.app.include_router(ingest_router(self.ingest.door, self.ingest.guard, self.ingest.commands))
        with psycopg.connect(**conninfo, autocommit=True) as connection:
            self.token = create_token(connection, "home", ["report"], label="test")
            self.jelly = create_token(connection, "jelly", ["report"])

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

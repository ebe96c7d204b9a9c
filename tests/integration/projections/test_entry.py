"""How the roles end: exit codes and signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from projections.entry import run_projection, run_relay
from projections.roles import create_roles
from schemas.topics import PLAYBACK_DECIDED
from streams.local import PostgresAddress
from streams.runtime.errors import ConfigurationError
from streams.runtime.kafka import apply_topics
from tests.integration.projections.world import PASSWORDS, World, environment_of, eventually, settings_for
from tests.stack import Database

pytestmark = pytest.mark.services

ROLES = {"projection": "run_projection", "relay": "run_relay"}


@pytest.mark.parametrize("role", ROLES)
def test_sigterm_ends_a_role_with_0(world: World, role: str) -> None:
    apply_topics(world.settings.kafka, [PLAYBACK_DECIDED])
    code = (
        "import sys; from streams.runtime import logs; from streams.runtime.settings import Settings;"
        f"from projections.entry import {ROLES[role]} as run; logs.configure('test'); sys.exit(run(Settings.load()))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **environment_of(world.settings)},
        stderr=subprocess.PIPE,
        text=True,
    )
    login = {"projection": "playhead_projector", "relay": "playhead_relay"}[role]
    try:
        eventually(
            lambda: (
                world.query("SELECT 1 FROM pg_stat_activity WHERE usename = %s AND datname = current_database()", login)
                != []
            ),
            "it is at work",
            60,
        )
        child.send_signal(signal.SIGTERM)
        _, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 0, errors
    assert '"event": "stopped as asked"' in errors


def test_a_stop_that_is_set_ends_a_role_with_0(world: World) -> None:
    stop = threading.Event()
    stop.set()
    assert run_relay(world.settings, stop) == 0
    assert run_projection(world.settings, stop) == 0


def test_a_database_that_was_never_migrated_ends_a_role_with_78(
    kafka_bootstrap: str, postgres_admin: PostgresAddress, database: Database
) -> None:
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    assert run_relay(settings_for(kafka_bootstrap, postgres_admin, database.name), threading.Event()) == 78


def test_a_projection_nobody_knows_ends_with_78(world: World) -> None:
    assert run_projection(world.settings, threading.Event(), projection="nonsense") == 78


def test_a_missing_password_is_told_before_anything_starts(world: World) -> None:
    bare = world.settings.postgres.model_copy(update={"relay_password": None})
    assert run_relay(world.settings.model_copy(update={"postgres": bare}), threading.Event()) == 78
    with pytest.raises(ConfigurationError, match="RELAY_PASSWORD"):
        bare.conninfo("relay")

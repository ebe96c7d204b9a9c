"""Commands an operator is sent to by a refusal, against a real database."""

from __future__ import annotations

import psycopg
import pytest

from projections import flood
from projections.migrate import migrate
from projections.roles import create_roles
from streams.cli.app import main
from streams.local import PostgresAddress
from streams.runtime.settings import Settings
from tests.integration.projections.world import PASSWORDS, settings_for
from tests.stack import Database

pytestmark = pytest.mark.services


@pytest.fixture
def settings(database: Database, postgres_admin: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> Settings:
    create_roles(postgres_admin.url(), PASSWORDS, database.name)
    made = settings_for("127.0.0.1:1", postgres_admin, database.name)
    with psycopg.connect(database.url) as superuser:
        superuser.execute(f'ALTER DATABASE "{database.name}" OWNER TO playhead_owner'.encode())
    migrate(made.postgres.conninfo("owner"))
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made


def test_given_a_flood_opened_the_breaker_resume_closes_it_once(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(**settings.postgres.conninfo("projector")) as connection:
        flood.open_breaker(connection, "projection.playback", "too many", {0: 7})
    assert main(["dlq", "resume", "projection.playback"]) == 0
    assert "start it again" in capsys.readouterr().out
    assert main(["dlq", "resume", "projection.playback"]) == 1


def test_given_a_projection_that_has_run_adopt_log_raises_its_log_epoch(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    with psycopg.connect(**settings.postgres.conninfo("projector")) as connection:
        connection.execute(
            "INSERT INTO model.offsets (projection, topic, partition, topic_id, log_epoch, next_offset)"
            " VALUES ('playback', 'playback.decided', 0, 'old', 3, 41)"
        )
    assert main(["adopt-log", "playback", "--yes", "--json"]) == 0
    assert '"log_epoch": 4' in capsys.readouterr().out


def test_given_a_projection_that_never_ran_adopt_log_says_so(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["adopt-log", "playback", "--yes"]) == 78
    assert "has never run" in capsys.readouterr().err


def test_given_the_database_is_away_it_is_one_sentence_and_exit_code_69(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYHEAD_POSTGRES__PORT", "1")
    assert main(["token", "list"]) == 69
    error = capsys.readouterr().err
    assert error.startswith("playhead: PostgreSQL at 127.0.0.1:1 does not answer")
    assert error.count("\n") == 1

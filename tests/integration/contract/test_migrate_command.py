"""``playhead migrate`` on an empty server: roles, database, tables; and on one that has them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from projections.roles import ROLES
from streams.cli.app import main
from streams.local import Stack
from streams.local.ports import choose

pytestmark = pytest.mark.services


def test_an_empty_server_becomes_ours_and_doing_it_again_changes_nothing(
    private_stack: Callable[..., Stack],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = private_stack(kafka=False, fast=True).addresses.postgres
    assert address is not None
    superuser = tmp_path / "superuser_url"
    superuser.write_text(address.url() + "\n")
    monkeypatch.setenv("PLAYHEAD_POSTGRES__HOST", address.host)
    monkeypatch.setenv("PLAYHEAD_POSTGRES__PORT", str(address.port))
    assert main(["migrate", "--superuser-url-file", str(superuser)]) == 78
    assert "OWNER_PASSWORD" in capsys.readouterr().err
    for role in ROLES:
        file = tmp_path / role
        file.write_text(secrets.token_urlsafe(16))
        monkeypatch.setenv(f"PLAYHEAD_POSTGRES__{role.upper()}_PASSWORD_FILE", str(file))

    assert main(["migrate", "--superuser-url-file", str(superuser), "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first["revision"]
    assert main(["migrate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"revision": first["revision"], "replaced": []}
    password = (tmp_path / "reader").read_text()
    with psycopg.connect(
        host=address.host, port=address.port, dbname="playhead", user="playhead_reader", password=password
    ) as connection:
        assert connection.execute("SELECT count(*) FROM information_schema.views").fetchone() is not None


def test_a_server_that_is_away_is_unavailable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYHEAD_POSTGRES__PORT", str(choose()))
    monkeypatch.setenv("PLAYHEAD_POSTGRES__OWNER_PASSWORD", secrets.token_urlsafe(16))
    assert main(["migrate"]) == 69
    assert "does not answer" in capsys.readouterr().err

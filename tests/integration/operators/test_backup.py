"""A backup of a whole Playhead, brought into an empty database beside a log that went on, and one that did not."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from projections.backup.archive import MANIFEST
from projections.digest import digests
from projections.migrate import migrate
from projections.models.playback import PlaybackProjection
from projections.roles import ROLES, create_roles
from projections.runner import Runner
from streams.runtime.contract import Contract
from streams.runtime.settings import Settings
from tests.integration.operators.house import House
from tests.integration.projections.world import Running, eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("operators"), pytest.mark.timeout(900), pytest.mark.long]

MODEL = PlaybackProjection.tables


class Other:
    """An empty, migrated database beside the one of the house, with the same roles."""

    def __init__(self, house: House, name: str) -> None:
        address = house.playhead.stack.postgres.address
        passwords = {role: house.settings.postgres.password(role) for role in ROLES}
        create_roles(address.url(), passwords, name)
        postgres = house.settings.postgres.model_copy(update={"database": name})
        self.settings: Settings = house.settings.model_copy(update={"postgres": postgres})
        migrate(self.settings.postgres.conninfo("owner"))
        self.environment = {"PLAYHEAD_POSTGRES__DATABASE": name}
        self._superuser = address.url(name)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._superuser) as connection:
            return connection.execute(query.encode()).fetchall()


@pytest.fixture
def other(playhead: House, unique_name: Callable[[str], str]) -> Other:
    return Other(playhead, unique_name("restored").replace("-", "_").replace(".", "_"))


def core_of(rows: Callable[[str], list[tuple[Any, ...]]], table: str) -> list[tuple[Any, ...]]:
    return sorted(rows(f"SELECT row::text FROM core.{table} AS row"))


def test_given_a_log_that_went_on_then_who_was_forgotten_since_stays_so_and_the_read_models_come_out_the_same(
    playhead: House, other: Other, tmp_path: Path
) -> None:
    house, file = playhead, tmp_path / "b.zip"
    for user in ("cleo", "danny"):
        house.play(user, "m1", 1, 2, 3)
    cleo, danny = house.ref_of("cleo"), house.ref_of("danny")
    made = house.document("backup", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert made["rows"]["users"] >= 2
    kept = {table: core_of(house.rows, table) for table in ("sources", "tokens", "source_upstreams", "schedules")}

    house.document("forget", "home/danny", "--yes")
    house.play("cleo", "m2", 1, 2, 3)
    done = house.document("backup", "restore", str(file), "--yes", environment=other.environment)
    assert done["forgotten_since"] == 1
    assert (done["notes"], done["accounts_unknown_to_log"]) == ([], 0)
    assert {table: core_of(other.rows, table) for table in kept} == kept
    assert other.rows("SELECT user_ref FROM core.users WHERE upstream_user = 'cleo'") == [(cleo,)]
    assert other.rows("SELECT 1 FROM core.users WHERE upstream_user = 'danny'") == []
    assert (danny,) in other.rows("SELECT user_ref FROM core.forgotten_people")
    [(epoch,)] = house.rows("SELECT model_epoch FROM model.epoch")
    assert other.rows("SELECT model_epoch FROM model.epoch") == [(epoch + 1,)]
    assert house.command("backup", "restore", str(file), "--yes", expect=1, environment=other.environment) == ""

    runner = Runner(PlaybackProjection(), other.settings, Contract.of(other.settings), group="restored")
    running = Running(runner)
    with psycopg.connect(house.superuser) as live:
        wanted = digests(live, tables=MODEL)
    eventually(lambda: _digests(other) == wanted, "the read models are made again", 180)
    running.stop.set()
    running.thread.join(30)
    assert running.error is None


def _digests(other: Other) -> Any:
    with psycopg.connect(**other.settings.postgres.conninfo("owner")) as connection:
        return digests(connection, tables=MODEL)


def test_given_a_log_that_is_older_or_another_then_places_ahead_of_it_are_taken_back_and_said(
    playhead: House, other: Other, tmp_path: Path
) -> None:
    house, file = playhead, tmp_path / "b.zip"
    house.rows(
        "INSERT INTO core.users (source_id, upstream_user, user_ref, published) VALUES ('home', 'ghost', 'g', true)"
    )
    house.document("backup", str(file))
    house.rows("DELETE FROM core.users WHERE upstream_user = 'ghost'")
    ahead, another = tmp_path / "ahead.zip", tmp_path / "another.zip"
    _changed(file, ahead, lambda one: {**one, "next_offset": one["next_offset"] + 1_000})
    _changed(file, another, lambda one: {**one, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"})

    done = house.document("backup", "restore", str(ahead), "--yes", environment=other.environment)
    assert done["accounts_unknown_to_log"] == 1
    assert other.rows("SELECT published FROM core.users WHERE upstream_user = 'ghost'") == [(False,)]
    assert len([one for one in done["notes"] if one.startswith("tasks:") and "older than the backup" in one]) == 12
    stand = (
        "SELECT partition, next_offset, log_epoch, adopting FROM model.offsets WHERE projection = 'tasks' ORDER BY 1"
    )
    live = house.rows(stand)
    assert other.rows(stand) == [(partition, offset, 2, False) for partition, offset, _, _ in live]

    done = house.document("backup", "restore", str(another), "--yes", "--replace", environment=other.environment)
    assert any("another log" in one for one in done["notes"])
    assert {row[1:] for row in other.rows(stand)} == {(0, 3, True)}


def test_given_another_identity_key_or_a_damaged_file_then_nothing_is_changed(
    playhead: House, other: Other, tmp_path: Path
) -> None:
    house, file = playhead, tmp_path / "b.zip"
    house.document("backup", str(file))
    key = {"PLAYHEAD_IDENTITY__HASH_KEY": "another-key-that-is-long-enough-0123456789"}
    house.command("backup", "restore", str(file), "--yes", expect=78, environment={**other.environment, **key})
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    house.command("backup", "restore", str(file), "--yes", expect=1, environment=other.environment)
    assert other.rows("SELECT count(*) FROM core.users") == [(0,)]
    # Its own database is in use.
    file.write_bytes(data)
    house.command("backup", "restore", str(file), "--yes", "--replace", expect=1)


def _changed(old: Path, new: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    with zipfile.ZipFile(old) as archive, zipfile.ZipFile(new, "w") as made:
        for name in archive.namelist():
            data = archive.read(name)
            if name == MANIFEST:
                document = json.loads(data)
                document["offsets"] = [change(one) for one in document["offsets"]]
                data = json.dumps(document).encode()
            made.writestr(name, data)

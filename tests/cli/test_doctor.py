"""What ``playhead doctor`` says where nothing is, and how it grades."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from streams.cli.app import main
from streams.cli.checks import local
from streams.cli.checks.finding import Finding, Status, fail, found_by, graded, ok
from streams.cli.checks.kafka import skew
from streams.runtime.errors import Unavailable
from streams.runtime.settings import KafkaSettings, PostgresSettings, Settings, SpoolSettings


def test_a_check_that_cannot_be_made_is_a_failure_and_the_others_go_on() -> None:
    def halfway(_: Settings) -> Iterator[Finding]:
        yield ok("a", "fine")
        raise Unavailable("nobody answers")

    def empty(_: Settings) -> Iterator[Finding]:
        yield from ()
        raise psycopg.errors.UndefinedTable

    settings = Settings()
    assert [one.status for one in found_by("a", halfway, settings)] == [Status.OK, Status.FAIL]
    [found] = found_by("b", empty, settings)
    assert (found.check, found.status, found.says) == ("b", Status.FAIL, "PostgreSQL answers UndefinedTable")


@pytest.mark.parametrize(
    ("value", "status"), [(9, Status.OK), (10, Status.WARN), (99, Status.WARN), (100, Status.FAIL)]
)
def test_a_value_is_graded_and_what_is_in_order_needs_nothing_done(value: float, status: Status) -> None:
    found = graded("a", value, "says", "do", warn_at=10, fail_at=100)
    assert found.status is status
    assert bool(found.do) is (status is not Status.OK)


@pytest.mark.parametrize(
    ("theirs", "status"),
    [(100.5, Status.OK), (99.5, Status.OK), (102.5, Status.WARN), (98.0, Status.WARN), (140.0, Status.FAIL)],
)
def test_a_clock_is_judged_by_how_far_it_lies_outside_of_the_question(theirs: float, status: Status) -> None:
    assert skew("clock", theirs, 100.0, 101.0).status is status


def test_settings_that_go_over_a_network_in_clear_are_warned_of() -> None:
    away = Settings(kafka=KafkaSettings(bootstrap="kafka-1:9092"), postgres=PostgresSettings(host="db.lan"))
    says = [one.says for one in local.settings_(away) if one.status is Status.WARN]
    assert len(says) == 2
    here = Settings(
        kafka=KafkaSettings(bootstrap="[::1]:9092,127.0.0.1:9093"), postgres=PostgresSettings(host="/run/pg")
    )
    assert not [one for one in local.settings_(here) if one.status is Status.WARN]


def test_armed_failpoints_and_a_missing_identity_key_are_failures() -> None:
    found = list(local.settings_(Settings(failpoints="work.done=kill")))
    assert [one.status for one in found] == [Status.FAIL, Status.FAIL]


def test_the_spool_is_measured_and_a_disk_that_is_too_small_for_it_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / "a").write_bytes(bytes(3 * 2**20))
    [found] = local.spool(Settings(state_dir=tmp_path, spool=SpoolSettings(bytes_max=2**60)))
    assert found.status is Status.WARN
    assert found.says.startswith("3.0 MiB on disk")
    [found] = local.spool(Settings(state_dir=tmp_path / "not" / "made", spool=SpoolSettings(bytes_max=1)))
    assert found.status is Status.OK


def test_without_any_service_every_check_says_so_and_the_exit_code_is_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for check in ("broker", "topics", "copies", "clock", "transactions"):
        monkeypatch.setattr(f"streams.cli.checks.kafka.{check}", lambda _: [fail("kafka", "away", "start it")])
    monkeypatch.setenv("PLAYHEAD_POSTGRES__PORT", "1")
    monkeypatch.setenv("PLAYHEAD_STATE_DIR", str(tmp_path))
    assert main(["doctor", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["status"] == "fail"
    assert all(one["do"] for one in document["findings"] if one["status"] != "ok")
    assert {"postgres", "migrations", "outbox", "backup", "spool"} <= {one["check"] for one in document["findings"]}

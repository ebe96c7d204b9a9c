"""The commands of the library against a real log, database and folder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas.library import ScanCancelled, ScanRequested
from streams.cli.app import main
from tests.integration.projections.world import eventually
from tests.integration.tasks.site import Site, sound

pytestmark = [pytest.mark.services, pytest.mark.long]


@pytest.fixture
def environment(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("PLAYHEAD_") and "__" in name:
            monkeypatch.delenv(name)
    for name, value in site.settings.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PLAYHEAD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def said(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("environment")
class TestScan:
    def test_it_asks_and_says_under_which_id(self, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["scan", site.source_id, "--full", "--no-wait", "--json"]) == 0
        [command] = site.commands()
        assert isinstance(command, ScanRequested)
        assert (command.requested_by, command.full) == ("operator", True)
        assert said(capsys)["status"] == "requested"

    def test_it_follows_a_scan_to_what_the_read_model_says(
        self, site: Site, capsys: pytest.CaptureFixture[str]
    ) -> None:
        # What the library's agent and projection would say of it.
        site.bench.query(
            "INSERT INTO model.scan_sessions (source_id, generation, requested_by, status, observations, seen, added,"
            " changed, moved, missing, present_before, unreadable, skipped, started_at, changed_at, correlation_id,"
            " partition, log_epoch, version) SELECT %s, 1000000, 'operator', 'held', 5, 5, 0, 0, 0, 40, 45, 0,"
            """ '{"hidden": 2}', 1, 1, 'c', 0, 1, 1""",
            (site.source_id,),
        )
        sound(site.root / "a.wav")
        with site.projecting(), site.working():
            assert main(["scan", site.source_id]) == 1
        shown = capsys.readouterr().out
        assert f"scan {site.source_id}:1000000 held" in shown
        assert f"playhead scan {site.source_id} --confirm" in shown
        assert "2 hidden" in shown

    def test_nothing_is_cancelled_when_nothing_runs_and_what_waits_is(
        self, site: Site, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["scan", site.source_id, "--cancel"]) == 1
        assert "no scan" in capsys.readouterr().err
        with site.projecting():
            generation = site.ask()
            eventually(lambda: bool(site.rows()), "it waits")
            assert main(["scan", site.source_id, "--cancel"]) == 0
            eventually(lambda: site.rows()[0]["cancelled_version"] == generation, "it is cancelled")
        assert isinstance(site.commands()[-1], ScanCancelled)
        assert not site.bench.tasks().waits("scan", site.source_id).wanted

    def test_what_is_not_held_can_not_be_confirmed(self, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["scan", site.source_id, "--confirm"]) == 1
        assert "no scan" in capsys.readouterr().err
        assert site.commands() == []

    def test_a_dry_run_says_what_is_new_and_tells_nobody(self, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
        sound(site.root / "album/a.wav")
        sound(site.root / "b.wav", settled=False)
        assert main(["scan", site.source_id, "--dry-run", "--json"]) == 1
        found = said(capsys)
        assert found["new"] == ["album/a.wav", "b.wav"]
        assert (found["gone"], found["unsettled"], found["complete"]) == ([], ["b.wav"], True)
        assert (site.commands(), site.observed(), site.rows()) == ([], [], [])
        assert main(["scan", site.source_id, "--dry-run"]) == 1
        assert "new: 2" in capsys.readouterr().out

    def test_a_dry_run_of_an_empty_folder_would_change_nothing(
        self, site: Site, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["scan", site.source_id, "--dry-run"]) == 0
        assert "would change nothing" in capsys.readouterr().out

    def test_a_folder_that_is_gone_is_said_so(self, site: Site, capsys: pytest.CaptureFixture[str]) -> None:
        site.root.rmdir()
        assert main(["scan", site.source_id, "--dry-run"]) == 1
        assert "can't be listed from here" in capsys.readouterr().err

    @pytest.mark.parametrize("more", [[], ["--dry-run"], ["--cancel"], ["--confirm"]])
    def test_an_unknown_source_is_said_so_with_what_to_do(
        self, more: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["scan", "nobody", *more]) == 1
        assert "playhead source list" in capsys.readouterr().err


@pytest.mark.usefixtures("environment")
class TestSources:
    def test_a_folder_becomes_a_source_and_its_path_is_told(
        self, site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        added = ["source", "add", "files", "shelf", "--path", "link", "--no-watch", "--every", "15 3 * * *", "--json"]
        assert main(added) == 0
        assert said(capsys)["path"] == str(tmp_path / "real")
        [tree] = site.bench.query("SELECT * FROM core.source_trees WHERE source_id = 'shelf'")
        assert (bytes(tree["path"]), tree["watch"]) == (bytes(tmp_path / "real"), False)
        [row] = site.bench.query("SELECT cron FROM core.schedules WHERE source_id = 'shelf'")
        assert row["cron"] == "15 3 * * *"

    @pytest.mark.parametrize(
        ("more", "why"),
        [
            (["--path", "nowhere"], "--elsewhere"),
            (["--path", "file"], "no folder"),
            (["--path", "relative", "--elsewhere"], "absolute"),
            (["--path", ".", "--every", "now and then"], "schedule"),
        ],
    )
    def test_what_is_no_folder_becomes_no_source(
        self, site: Site, tmp_path: Path, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").touch(0o755)
        assert main(["source", "add", "files", "shelf", *more]) == 1
        assert why in capsys.readouterr().err
        assert site.bench.query("SELECT * FROM core.sources WHERE source_id = 'shelf'") == []

    def test_a_folder_of_another_machine_is_taken_as_it_is_written(self, site: Site) -> None:
        assert main(["source", "add", "files", "shelf", "--path", "/somewhere/../else", "--elsewhere"]) == 0
        [tree] = site.bench.query("SELECT path FROM core.source_trees WHERE source_id = 'shelf'")
        assert bytes(tree["path"]) == b"/somewhere/../else"


@pytest.mark.usefixtures("environment")
def test_a_worker_does_tasks_and_ends_when_it_is_told_to(site: Site) -> None:
    sound(site.root / "a.wav")
    command = [sys.executable, "-m", "streams.cli", "work", "--no-watch"]
    with site.projecting(), subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            site.wait_done(site.ask())
        finally:
            process.send_signal(signal.SIGTERM)
            _, logged = process.communicate(timeout=30)
    assert process.returncode == 0, logged
    lines = [json.loads(line) for line in logged.splitlines() if '"task ended"' in line]
    # Other tests' requests are in the log, too.
    [ended] = [line for line in lines if line["source"] == site.source_id]
    assert ended["outcome"] == "done"
    assert ended["correlation_id"] == site.commands()[0].correlation_id


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("kinds", ["", "scan,sing"])
def test_a_worker_knows_its_kinds(kinds: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["work", "--kinds", kinds]) == 2
    assert "scan, metadata" in capsys.readouterr().err

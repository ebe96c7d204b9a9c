"""``playhead agents``: which agents run, and a look into their tables without any service."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rocksdict import Options, Rdict, WriteBatch

from schemas.placement import playback_key, playback_partition
from schemas.topics import PLAYBACK_REPORTED
from streams.agents import app as agents
from streams.agents import state as rows
from streams.agents.playback import AGENT
from streams.cli.app import main
from streams.domain.state import State
from streams.engine import EngineConfig, FloodError
from streams.engine.batch import TableSpec
from streams.engine.changelog import SourceMark
from streams.engine.flood import FloodGuard
from streams.engine.store import STATE_KEY, Position, StoreState
from streams.runtime.settings import Settings

USER, OTHER, MEDIA = "a" * 32, "b" * 32, "c" * 32
KEY = playback_key(USER, MEDIA)
HOME = playback_partition(KEY)
SPEC = TableSpec.of(AGENT.name, AGENT.tables[0].name)
ROW = rows.encode(State(user=USER, media=MEDIA, position_ms=600_000))


@pytest.fixture(autouse=True)
def _nothing_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLAYHEAD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PLAYHEAD_KAFKA__BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.chdir(tmp_path)


def keep(worker: str, partition: int, offset: int, table: dict[bytes, bytes]) -> Callable[[], None]:
    """Write a worker's copy and go on holding it open; returns what closes it."""
    folder = agents.state_dir(Settings.load(), AGENT, worker) / str(partition)
    folder.parent.mkdir(parents=True, exist_ok=True)
    held: Any = Rdict(str(folder), Options(raw_mode=True))
    batch: Any = WriteBatch(raw_mode=True)
    for key, row in table.items():
        batch.put(SPEC.prefix + key, row)
    marks = {PLAYBACK_REPORTED.name: SourceMark("id", offset * 2, 12)}
    batch.put(STATE_KEY, StoreState(1.0, {SPEC.changelog: Position("id", offset)}, marks).encode())
    held.write(batch)
    close: Callable[[], None] = held.close
    return close


def look(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(["agents", "table", *arguments, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


def test_given_a_worker_at_work_then_its_row_is_shown_with_how_far_its_copy_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    close = keep("1", HOME, 40, {KEY: ROW})
    code, found = look(capsys, "progress", KEY.decode())
    assert code == 0
    (row,) = found["rows"]
    assert (row["partition"], row["key"], row["value"]["position_ms"]) == (HOME, KEY.decode(), 600_000)
    assert found["current_to"] == [
        {
            "partition": HOME, "from": "worker 1", "changelog": SPEC.changelog, "offset": 40,
            "sources": {PLAYBACK_REPORTED.name: 80}, "undecided": 0,
        }
    ]  # fmt: skip
    assert main(["agents", "table", "progress", KEY.decode()]) == 0
    said = capsys.readouterr().out
    assert f"partition {HOME}, worker 1: current to offset 40" in said
    assert "--from-changelog shows what is committed" in said
    assert '"position_ms": 600000' in said
    close()


def test_given_no_such_row_then_exit_code_1_and_how_far_that_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    keep("1", HOME, 40, {})()
    code, found = look(capsys, "progress", KEY.decode())
    assert (code, found["rows"], found["current_to"][0]["offset"]) == (1, [], 40)
    assert main(["agents", "table", "playback/progress", KEY.decode()]) == 1
    assert "no such row" in capsys.readouterr().out


def test_given_copies_of_two_workers_then_the_furthest_counts_unless_one_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep("1", HOME, 40, {KEY: ROW})()
    keep("2", HOME, 41, {KEY: rows.encode(State(user=USER, media=MEDIA, position_ms=1))})()
    assert look(capsys, "progress", KEY.decode())[1]["rows"][0]["value"]["position_ms"] == 1
    assert look(capsys, "progress", KEY.decode(), "--worker", "1")[1]["rows"][0]["value"]["position_ms"] == 600_000


def test_given_a_prefix_and_a_limit_then_rows_in_key_order_and_whether_there_are_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keys = [playback_key(USER, str(number)) for number in range(5)]
    keep("1", HOME, 40, {**dict.fromkeys(keys, ROW), playback_key(OTHER, "9"): ROW})()
    where = ["--partition", str(HOME), "--prefix", f"{USER}:"]
    code, found = look(capsys, "progress", *where, "--limit", "4")
    assert (code, found["more"]) == (0, True)
    assert [row["key"].encode() for row in found["rows"]] == keys[:4]
    code, found = look(capsys, "progress", *where)
    assert (found["more"], len(found["rows"])) == (False, 5)
    assert main(["agents", "table", "progress", *where, "--limit", "1"]) == 0
    assert "more rows than 1" in capsys.readouterr().out


def test_given_a_damaged_row_then_it_is_shown_as_such_and_a_newer_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep("1", HOME, 40, {KEY: b"\1"})()
    assert "damaged" in look(capsys, "progress", KEY.decode())[1]["rows"][0]
    keep("1", HOME, 41, {KEY: b"\xff"})()
    assert main(["agents", "table", "progress", KEY.decode()]) == 78
    assert "Upgrade Playhead" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["table", "nope"], 78, "playback/aliases, playback/forgotten, playback/progress"),
        (["table", "progress", "no-key"], 78, "user_ref:media_id"),
        (["table", "progress", "--worker", "1", "--partition", "3"], 78, "worker 1 keeps no copy of 3"),
        (["table", "progress", "--worker", "1", "--from-changelog"], 78, "--worker is about local copies"),
        (["no-such-agent"], 78, "no such agent: no-such-agent; there are library, playback"),
        (["run", "playback", "no-such-agent"], 78, "no such agent"),
    ],
)
def test_given_what_there_is_not_then_one_line_that_says_what_there_is(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agents", *arguments]) == code
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_given_no_copy_and_no_broker_then_exit_code_69(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from streams.agents import looking

    monkeypatch.setattr(looking, "BROKER_WAIT_S", 0.2)
    assert main(["agents", "table", "progress", KEY.decode()]) == 69
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_given_no_table_then_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    keep("7", HOME, 40, {})()
    code, found = look(capsys)
    assert (code, found["workers_here"]) == (0, ["7"])
    tables = [table["table"] for table in found["tables"]]
    of_playback = [table for table in tables if table.startswith("playback/")]
    assert of_playback == ["playback/progress", "playback/aliases", "playback/forgotten"]


def test_given_names_or_none_then_run_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[list[str], str]] = []
    through: list[bool] = []
    trusted: list[bool] = []

    def run(_: object, names: list[str], worker: str, *, through_flood: bool, trust_group_offsets: bool) -> None:
        ran.append((names, worker))
        through.append(through_flood)
        trusted.append(trust_group_offsets)

    monkeypatch.setattr(agents, "run", run)
    monkeypatch.setattr("streams.cli.role.begin", lambda _: None)
    assert main(["agents"]) == 0
    assert main(["agents", "--worker", "2"]) == 0
    assert main(["agents", "playback", "--trust-group-offsets"]) == 0
    assert main(["agents", "run", "playback", "--worker", "3", "--through-flood"]) == 0
    assert through == [False, False, False, True]
    assert trusted == [False, False, True, False]
    assert ran == [([], "1"), ([], "2"), (["playback"], "1"), (["playback"], "3")]


def test_a_flood_that_was_looked_at_passes_and_another_does_not() -> None:
    usual, through = (agents.build(Settings(), through_flood=through).config for through in (False, True))

    def passes(config: EngineConfig, dead: int) -> bool:
        try:
            FloodGuard(config.flood_run, config.flood_share, config.flood_window).check(range(dead))
        except FloodError:
            return False
        return True

    assert [passes(usual, 99), passes(usual, 5_000)] == [True, False]
    assert [passes(through, 5_000), passes(through, agents.THROUGH_FLOOD)] == [True, False]


def test_a_groups_offsets_are_trusted_only_by_a_start_that_is_told_so() -> None:
    starts = [agents.build(Settings(), trust_group_offsets=told).config for told in (False, True)]
    assert [config.trust_group_offsets for config in starts] == [False, True]


def test_no_agent_is_named_like_a_sub_command() -> None:
    from streams.cli.agents import app

    commands = {
        str(command.name or command.callback.__name__) for command in app.registered_commands if command.callback
    }
    assert {"run", "table"} <= commands
    assert not commands & agents.AGENTS.keys()

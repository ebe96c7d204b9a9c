"""The command line: quick help, one clear line for an error, exit codes that mean something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from schemas.topics import TOPICS
from streams.cli import app as app_module
from streams.cli import output
from streams.cli.app import COMMANDS, Lazy, main
from streams.local.ports import choose
from streams.runtime.errors import ConfigurationError, Fatal, Permanent, PlayheadError, Unavailable


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.upper().startswith("PLAYHEAD_") and "__" in name:
            monkeypatch.delenv(name)
    monkeypatch.setenv("PLAYHEAD_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


def test_help_lists_every_command_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"{name} " in shown
        assert command.help[:40] in shown


def test_help_imports_no_heavy_library() -> None:
    code = (
        "import sys\nfrom streams.cli.app import main\nmain(['--help'])\n"
        "print(sorted({'confluent_kafka', 'fastavro', 'faust', 'psycopg', 'sqlalchemy', 'pydantic', 'httpx', 'fastapi'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_can_be_loaded_and_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert find_spec(COMMANDS[name].target.partition(":")[0]) is not None
    assert main([name, "--help"]) == 0
    assert "Usage" in capsys.readouterr().out


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) in {0, 2}
    assert "topics" in "".join(capsys.readouterr())


def test_an_unknown_command_or_option_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such-thing"]) == 2
    assert "no-such-thing" in capsys.readouterr().err
    assert main(["topics", "apply", "--no-such-option"]) == 2


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == version("playhead")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("set it"), 78),
        (Unavailable("gone"), 69),
        (Fatal("again"), 70),
        (Permanent("no", cause="x"), 1),
        (PlayheadError("no"), 1),
    ],
)
def test_an_error_is_one_line_on_stderr_and_its_exit_code(
    error: PlayheadError, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(output, "_failing", fail, raising=False)
    monkeypatch.setitem(COMMANDS, "fail", Lazy("streams.cli.output:_failing", "Fails."))
    assert main(["fail"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"playhead: {error}\n"


def test_an_errors_text_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert output.complain(PlayheadError("a\nb\x1b[2K")) == 1
    assert capsys.readouterr().err == "playhead: a\\u000ab\\u001b[2K\n"


def test_a_bug_shows_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(output, "_failing", fail, raising=False)
    monkeypatch.setitem(COMMANDS, "fail", Lazy("streams.cli.output:_failing", "Fails."))
    with pytest.raises(ZeroDivisionError):
        main(["fail"])


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "_failing", interrupted, raising=False)
    monkeypatch.setitem(COMMANDS, "fail", Lazy("streams.cli.output:_failing", "Fails."))
    assert main(["fail"]) == app_module.EXIT_INTERRUPTED == 130


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f'"{sys.executable}" -m streams.cli topics list --json | head -c 1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr == ""


def test_cells_of_a_table_are_data(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit_table(("a", "b"), [("[red]x[/red]", "\x1b[31m")], title="t")
    shown = capsys.readouterr().out
    assert "[red]x[/red]" in shown
    assert "\x1b" not in shown


def test_listing_topics_needs_no_services(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics", "list", "--json"]) == 0
    assert [topic["name"] for topic in json.loads(capsys.readouterr().out)] == [topic.name for topic in TOPICS]
    assert main(["topics", "list"]) == 0
    assert all(topic.name in capsys.readouterr().out for topic in TOPICS[:1])


def test_topics_without_a_broker_are_unavailable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYHEAD_KAFKA__BOOTSTRAP", f"127.0.0.1:{choose()}")
    for command in ("apply", "check"):
        assert main(["topics", command, "--wait", "0.3"]) == 69
        assert "does not answer" in capsys.readouterr().err


def test_schemas_are_checked_without_a_registry(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas", "check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"problems": [], "registry_asked": False}


def test_registering_without_a_registry_is_a_configuration_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schemas", "register"]) == 78
    assert "PLAYHEAD_REGISTRY__URL" in capsys.readouterr().err


def test_a_registry_that_is_away_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_REGISTRY__URL", f"http://127.0.0.1:{choose()}")
    monkeypatch.setenv("PLAYHEAD_REGISTRY__TIMEOUT_S", "0.5")
    assert main(["schemas", "register"]) == 69
    assert main(["schemas", "check"]) == 69
    assert main(["schemas", "check", "--offline"]) == 0


def test_a_damaged_file_of_ids_is_a_configuration_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_REGISTRY__URL", "http://127.0.0.1:9")
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "schema-ids.json").write_text("{")
    assert main(["schemas", "check"]) == 78

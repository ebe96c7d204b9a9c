"""The root of ``playhead``: a list of sub-commands, each imported only when it is called.

So ``playhead --help`` is quick and a command pays for its own imports only. To add a command: write its module
with a ``typer.Typer`` named ``app`` (several sub-commands) or a plain function (one), and add a line to COMMANDS.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from streams.cli.output import complain
from streams.runtime.errors import PlayheadError

EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Lazy:
    """Where a command is (``module:attribute``) and what ``--help`` says of it."""

    target: str
    help: str

    def load(self, name: str) -> Any:
        """The click command. Imports its module."""
        module, _, attribute = self.target.partition(":")
        found = getattr(import_module(module), attribute)
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(name)(found)
            found = single
        command = get_command(found)
        command.name = name
        return command


COMMANDS: dict[str, Lazy] = {
    "up": Lazy("streams.cli.up:up", "All of Playhead on this machine, until Ctrl-C."),
    "demo": Lazy(
        "streams.cli.demo:demo", "An evening of playback, a library disturbed, what is lost mended; then stop."
    ),
    "serve": Lazy("streams.cli.serve:serve", "The HTTP door and read API."),
    "poll": Lazy("streams.cli.poll:poll", "Media servers that push nothing, asked for what is new."),
    "agents": Lazy("streams.cli.agents:app", "The Faust agents: reports in, decisions out; a look into their tables."),
    "project": Lazy("streams.cli.project:project", "A projection: records to PostgreSQL rows."),
    "relay": Lazy("streams.cli.relay:relay", "The outbox to cache.invalidated."),
    "cache": Lazy("streams.cli.cache:cache", "The cache in Valkey: what is stale in the log is stale there."),
    "work": Lazy("streams.cli.work:work", "Tasks under leases: scans, details read again; schedules, watching."),
    "scan": Lazy("streams.cli.scan:scan", "A source is listed anew; what would change, with --dry-run."),
    "watch": Lazy("streams.cli.watch:watch", "What changes, as it happens: a small client of /v1/changes."),
    "source": Lazy("streams.cli.source:app", "Media servers and apps that may send reports."),
    "user": Lazy("streams.cli.user:app", "People, and which accounts are whose."),
    "forget": Lazy("streams.cli.forget:forget", "A person leaves, and nothing brings them back."),
    "backup": Lazy("streams.cli.backup:app", "What can't be made again from the log: to a file, and back."),
    "token": Lazy("streams.cli.token:app", "Who may report, read and operate."),
    "decide": Lazy("streams.cli.decide:decide", "What the playback rules make of reports; needs no services."),
    "parse": Lazy("streams.cli.parse:app", "What a webhook body says, as reports; needs no services."),
    "replay": Lazy("streams.cli.replay:app", "Captured payloads through the door again; resumable."),
    "migrate": Lazy("streams.cli.migrate:migrate", "Bring PostgreSQL to this build's roles, tables and grants."),
    "rebuild": Lazy("streams.cli.rebuild:rebuild", "A read model made anew beside the live one, compared, switched."),
    "redecide": Lazy("streams.cli.redecide:redecide", "Which decisions other rules would make; writes nothing."),
    "reconcile": Lazy(
        "streams.cli.reconcile:reconcile", "Log, rows, caches, libraries and servers held against each other; mended."
    ),
    "adopt-log": Lazy("streams.cli.adopt_log:adopt_log", "Go on with another log, after a refusal."),
    "dlq": Lazy("streams.cli.dlq:app", "Records nobody could process: look, redrive, discard; resume after a flood."),
    "explain": Lazy("streams.cli.explain:explain", "What became of a report, and why."),
    "history": Lazy("streams.cli.history:history", "What a person played of one media, newest first."),
    "restore": Lazy("streams.cli.history:restore", "An earlier position again, or a finish that was none undone."),
    "doctor": Lazy("streams.cli.doctor:doctor", "Is everything as it must be, and if not, what to do."),
    "topics": Lazy("streams.cli.topics:app", "Make Kafka's topics as the catalogue says, or check them."),
    "schemas": Lazy("streams.cli.schemas:app", "Register the event schemas, or check them."),
}


class LazyGroup(TyperGroup):
    """Lists COMMANDS without importing them; imports the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """For listings only: a stand-in that knows its name and help."""
        del ctx
        known = COMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=known.help) if known else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            return args[0], COMMANDS[args[0]].load(args[0]), args[1:]
        return super().resolve_command(ctx, args)


root = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Media libraries and playback positions, right on every device. "
    "Exit codes: 0 done, 1 something differs or was refused, 2 wrong usage, 69 a service is away, "
    "70 start me again, 78 configuration.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("playhead"))
        raise typer.Exit


@root.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    del version


def main(args: list[str] | None = None) -> int:
    """Run the command line ``args`` (of the process by default); returns its exit code.

    Errors Playhead raises on purpose are one line on stderr. Anything else is a bug and shows its traceback.
    """
    try:
        get_command(root).main(args=args, prog_name="playhead")
    except PlayheadError as exc:
        return complain(exc)
    except BrokenPipeError:
        # The reader went away (playhead … | head). Keep Python from complaining about it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else 0 if exc.code is None else 1
    return 0

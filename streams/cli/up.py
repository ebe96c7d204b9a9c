"""``playhead up``: the whole of Playhead on this machine, until Ctrl-C."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import typer

from streams.cli.output import Json, emit_json

#: How the engine's lines about a restore begin (streams/engine/progress.py).
RESTORING = "restoring "


def up(
    data: Path = typer.Option(Path("data"), help="Folder for services, logs, secrets and state; kept between runs."),
    port: int = typer.Option(8420, min=0, max=65535, help="Port of the HTTP API, on loopback; 0: a free one."),
    workers: int = typer.Option(1, min=1, max=12, help="Agent processes."),
    registry: bool = typer.Option(True, help="Start the schema registry; without it schemas are pinned."),
    cache: bool = typer.Option(
        True, help="Start Valkey and keep a cache in it; without it every read asks PostgreSQL."
    ),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Show the roles' logs here too."),
    as_json: Json = False,
) -> None:
    """Start Kafka, PostgreSQL, the registry and every role; print the addresses; stop all on Ctrl-C.

    The first run fetches about 205 MB into the user's cache; later ones need no network.

    Examples:  playhead up  ·  playhead up --data ~/playhead --workers 2  ·  playhead up --no-registry
    """
    from rich.console import Console

    from streams.cli import running
    from streams.cli.deployment import SETTINGS_FILE, Options
    from streams.cli.stopping import until_signal
    from streams.local import ports
    from streams.runtime.errors import ConfigurationError

    console = Console(stderr=True)

    def show(role: str, line: str) -> None:
        said = line if verbose else worth_showing(line)
        if said is not None:
            console.print(f"{role:>8} │ {said}", markup=False, highlight=False)

    if port and not ports.is_free(port):
        raise ConfigurationError(f"port {port} is in use: stop what uses it, or choose another with --port")
    options = Options(http_port=port or None, agents=workers, lasting=True)
    with (
        running.deployment(
            data.expanduser().absolute(), options, console, registry=registry, cache=cache, on_line=show
        ) as playhead,
        until_signal() as stop,
    ):
        addresses = playhead.addresses()
        if as_json:
            emit_json(addresses)
        else:
            for name, address in addresses.items():
                console.print(f"  {name:<10} {address}", markup=False, highlight=False)
            console.print(
                "\n/metrics of every process: the file of processes is for Prometheus (docker/observe/PLAYBOOK.md).",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            config = shlex.quote(str(playhead.stack.folder / SETTINGS_FILE))
            command = shlex.quote(str(Path(sys.executable).with_name("playhead")))
            console.print(
                f"\nIn another terminal:\n  export PLAYHEAD_CONFIG={config}\n"
                f"  {command} source add jellyfin shelf\nCtrl-C stops everything.",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
        while not stop.wait(0.5):
            playhead.supervisor.raise_refusal()
        console.print("stopping …")


def worth_showing(line: str) -> str | None:
    """What of a role's line is shown without --verbose: the supervisor's own lines, and how far a restore is.

    A role's own lines are JSON; the supervisor's, which say what ended and is started again, are not.
    """
    if not line.startswith("{"):
        return line
    try:
        event = json.loads(line).get("event", "")
    except ValueError:
        return None  # cut in the middle by the end of its process
    return event if isinstance(event, str) and event.startswith(RESTORING) else None

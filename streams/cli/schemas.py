"""``playhead schemas``: register the pinned event schemas, or tell what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from streams.cli.output import Json, emit_json, emit_lines, emit_table, finish

if TYPE_CHECKING:
    from schemas.registry import Registry
    from streams.runtime.settings import Settings

app = typer.Typer(
    no_args_is_help=True,
    help="The event schemas, pinned in schemas/avro. Registering is optional: without a registry they have pinned ids.",
)


@app.command(
    epilog="Examples:  playhead schemas register  ·  PLAYHEAD_REGISTRY__URL=… playhead schemas register --json"
)
def register(as_json: Json = False) -> None:
    """Register every schema under FULL_TRANSITIVE and keep the ids. Doing it again changes nothing.

    Exit code 78 when the registry refuses, contradicts an id learned before, or none is configured.
    """
    from streams.runtime.errors import ConfigurationError
    from streams.runtime.settings import Settings

    settings = Settings.load()
    if settings.registry.url is None:
        raise ConfigurationError("no registry is configured: set PLAYHEAD_REGISTRY__URL")
    with _registry(settings) as registry:
        ids = registry.register()
    if as_json:
        emit_json({"ids": ids})
    else:
        emit_table(("schema", "id"), ids.items())


@app.command(epilog="Examples:  playhead schemas check  ·  playhead schemas check --offline --json")
def check(
    offline: bool = typer.Option(False, "--offline", help="Check the pinned schemas only, ask no registry."),
    as_json: Json = False,
) -> None:
    """Check our rules and FULL_TRANSITIVE between all versions, and, if one is configured, the registry.

    Exit code 1 when something is wrong. Changes nothing.
    """
    from schemas import compatibility
    from streams.runtime.settings import Settings

    problems = compatibility.check()
    asked = False
    if not offline:
        settings = Settings.load()
        if settings.registry.url is not None:
            asked = True
            with _registry(settings) as registry:
                problems += registry.check()
    if as_json:
        emit_json({"problems": problems, "registry_asked": asked})
    else:
        emit_lines(problems, when_none=f"all schemas are right{'' if asked else '; no registry was asked'}")
    finish(problems)


@contextmanager
def _registry(settings: Settings) -> Iterator[Registry]:
    """The configured registry; its errors become ours."""
    from schemas.ids import RegistryMismatch, SchemaIds
    from schemas.registry import Registry, RegistryAway
    from streams.runtime.errors import ConfigurationError, Unavailable

    try:
        ids = SchemaIds(settings.schema_ids_file)
        with Registry(settings.registry.url or "", ids, timeout_s=settings.registry.timeout_s) as registry:
            yield registry
    except RegistryMismatch as exc:
        raise ConfigurationError(str(exc)) from exc
    except RegistryAway as exc:
        raise Unavailable(str(exc)) from exc
    except OSError as exc:
        raise ConfigurationError(f"{settings.schema_ids_file} can't be kept: {exc.strerror}") from exc

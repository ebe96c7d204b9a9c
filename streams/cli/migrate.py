"""``playhead migrate``: roles, database and tables, as this build wants them."""

from __future__ import annotations

from pathlib import Path

import typer

from streams.cli.output import Json, emit_json, emit_lines


def migrate(
    superuser_url_file: Path = typer.Option(
        None,
        "--superuser-url-file",
        exists=True,
        dir_okay=False,
        help="File with a URL of somebody who may create roles; they and the database are made first.",
    ),
    as_json: Json = False,
) -> None:
    """Bring the database to this build's tables, views and grants, in one transaction. Repeating changes nothing.

    Exit code 78 when a newer build has migrated it already, or a role's password is missing.

    Examples:  playhead migrate  ·  playhead migrate --superuser-url-file /run/secrets/superuser_url
    """
    import psycopg
    from sqlalchemy.exc import OperationalError

    from projections.migrate import migrate as migrate_database
    from projections.roles import ROLES, create_roles
    from streams.runtime.errors import Unavailable
    from streams.runtime.settings import Settings

    settings = Settings.load()
    postgres = settings.postgres
    try:
        if superuser_url_file is not None:
            passwords = {role: postgres.password(role) for role in ROLES}
            create_roles(superuser_url_file.read_text(encoding="utf-8").strip(), passwords, postgres.database)
        done = migrate_database(postgres.conninfo("owner"))
    except (psycopg.OperationalError, OperationalError) as exc:
        said = str(exc.orig if isinstance(exc, OperationalError) else exc).strip()
        reason = (said.splitlines() or ["no reason given"])[0]
        raise Unavailable(f"PostgreSQL at {postgres.host}:{postgres.port} does not answer: {reason}") from exc
    if as_json:
        emit_json({"revision": done.revision, "replaced": list(done.replaced)})
    else:
        emit_lines(
            [f"tables at revision {done.revision}", *(f"applied {name}" for name in done.replaced)], when_none=""
        )

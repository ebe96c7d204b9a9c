"""``playhead doctor``: is everything as it must be, and if not, what to do."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json, emit_table


def doctor(as_json: Json = False) -> None:
    """Look at everything Playhead stands on: settings, Kafka, PostgreSQL, schemas, cache, clocks, lag, leases, disk,
    dead letters, backups. Each line says ok, warn or fail, and what to do. Exit code 1 when anything failed.

    Changes nothing, but for one empty record that nobody reads: it shows that Kafka takes writes, and its clock.

    Examples:  playhead doctor  ·  playhead doctor --json
    """
    from streams.cli.checks import kafka, local, postgres, work
    from streams.cli.checks.finding import Check, Finding, Status, found_by
    from streams.runtime.errors import EXIT_DIFFERENCES
    from streams.runtime.settings import Settings

    checks: dict[str, Check] = {
        "settings": local.settings_,
        "kafka": kafka.broker,
        "topics": kafka.topics,
        "copies": kafka.copies,
        "writing": kafka.clock,
        "transactions": kafka.transactions,
        "schemas": kafka.schemas,
        "postgres": postgres.roles,
        "migrations": postgres.revision,
        "durability": postgres.durability,
        "clock of postgres": postgres.clock,
        "open transactions": postgres.transactions,
        "agents": work.agents,
        "projections": work.projections,
        "outbox": work.invalidations,
        "tasks": work.tasks,
        "dead letters": work.dead_letters,
        "forgotten": work.forgotten,
        "cache": local.cache,
        "spool": local.spool,
        "backup": work.backups,
    }
    settings = Settings.load()
    findings: list[Finding] = [finding for name, check in checks.items() for finding in found_by(name, check, settings)]
    worst = max(findings, key=lambda one: list(Status).index(one.status)).status
    if as_json:
        emit_json(
            {
                "status": worst,
                "findings": [
                    {"check": one.check, "status": one.status, "says": one.says, "do": one.do} for one in findings
                ],
            }
        )
    else:
        emit_table(("", "what", "seen", "to do"), [(one.status, one.check, one.says, one.do) for one in findings])
    if worst is Status.FAIL:
        raise typer.Exit(EXIT_DIFFERENCES)

"""A whole Playhead in a temporary folder, and its command line as an operator has it: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from streams.runtime.settings import PREFIX
from tests.faults.world import World, playhead_world
from tests.house.tree import ROOT
from tests.integration.projections.world import eventually

PATIENCE_S = 300


class House(World):
    """``World`` with a command line."""

    def command(self, *arguments: str, expect: int | None = 0, environment: Mapping[str, str] | None = None) -> str:
        """What ``playhead`` said; ``expect``: its exit code, None: any."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        done = subprocess.run(
            [sys.executable, "-m", "streams.cli", *arguments],
            cwd=ROOT,
            env={**kept, **self.settings.environment(), **(environment or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert expect is None or done.returncode == expect, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def document(self, *arguments: str, expect: int | None = 0, environment: Mapping[str, str] | None = None) -> Any:
        return json.loads(self.command(*arguments, "--json", expect=expect, environment=environment))

    def report(self, user: str, media: str, number: int, **changes: Any) -> dict[str, Any]:
        return {
            "event_id": f"{user}-{media}-{number}",
            "user": user,
            "media": media,
            "media_kind": "video",
            "kind": "progress",
            "session_id": f"{user}-tv",
            "sequence": number,
            "position_ms": 600_000 + number * 1_000,
            "duration_ms": 6_600_000,
            "listened_ms": number * 1_000,
            **changes,
        }

    def ref_of(self, user: str) -> str:
        return str(self.rows("SELECT user_ref FROM core.users WHERE upstream_user = %s", user)[0][0])

    def rows(self, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.superuser) as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def play(self, user: str, media: str, *numbers: int) -> None:
        """Report, and return when that is decided and projected."""
        reports = [self.report(user, media, number) for number in numbers]
        self.send(reports)
        wanted = [one["event_id"] for one in reports]

        def seen() -> bool:
            found = self.rows("SELECT count(*) FROM model.processed_events WHERE event_id = ANY(%s)", wanted)
            return bool(found[0][0] == len(wanted))

        eventually(seen, "what was reported is projected", PATIENCE_S)

    def tables_that_say(self, text: str) -> list[str]:
        """Every table of ours with a row that holds ``text`` anywhere, those kept for a rollback included."""
        found = []
        with psycopg.connect(self.superuser) as connection:
            tables = connection.execute(
                "SELECT schemaname, tablename FROM pg_tables WHERE schemaname ~ '^(core|model)' ORDER BY 1, 2"
            ).fetchall()
            for schema, table in tables:
                query = sql.SQL("SELECT count(*) FROM {} AS row WHERE row::text LIKE {}").format(
                    sql.Identifier(schema, table), sql.Literal(f"%{text}%")
                )
                row = connection.execute(query).fetchone()
                if row is not None and row[0]:
                    found.append(f"{schema}.{table}")
        return found


@contextmanager
def house() -> Iterator[House]:
    with playhead_world() as world:
        found = House(world.playhead)
        with found.client:
            yield found

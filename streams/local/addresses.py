"""Where the services of a running stack are."""

from __future__ import annotations

from dataclasses import dataclass, field

from streams.local.postgres import PostgresAddress


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses for clients; None for a service that the stack was not asked to run.

    They stay the same over restarts of single services and, unless somebody took a port meanwhile, of the stack
    on the same folder. Secrets do not show when printed.
    """

    bootstrap: str | None
    postgres: PostgresAddress | None
    registry_url: str | None
    valkey_url: str | None = field(repr=False)

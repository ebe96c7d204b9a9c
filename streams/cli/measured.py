"""Where the numbers of a deployment on this machine are: every process has its port, which it keeps."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from streams.local import ports
from streams.local.supervisor import Role
from streams.runtime.settings import PREFIX, Settings

PORTS_FILE: Final = "metrics-ports.json"
TARGETS_FILE: Final = "metrics-targets.json"
"""What Prometheus finds every process by (file_sd_configs)."""
SUPERVISOR: Final = "supervisor"
"""The process that starts the others again, and counts how often."""


@dataclass(frozen=True, slots=True)
class Measured:
    """``roles`` as they are to be started; ``ports``: of /metrics, by process, the supervisor's included;
    ``targets``: the file that names them."""

    roles: Sequence[Role]
    ports: Mapping[str, int]
    targets: Path


def measured(roles: Sequence[Role], settings: Settings, folder: Path) -> Measured:
    """Give each role but serve, which answers beside its API, a port on loopback; write the file of targets."""
    own = [role.name for role in roles if role.name != "serve"]
    chosen = ports.remembered(folder / PORTS_FILE, [*own, SUPERVISOR], {})
    found = {"serve": settings.http.port, **chosen}
    targets = [
        {"targets": [f"{ports.LOOPBACK}:{port}"], "labels": {"process": process}} for process, port in found.items()
    ]
    path = folder / TARGETS_FILE
    temporary = path.with_suffix(f".{os.getpid()}")
    temporary.write_text(json.dumps(targets, indent=1) + "\n", "utf-8")
    temporary.replace(path)
    given = [
        replace(role, environment={**role.environment, **_variables(chosen[role.name])})
        if role.name in chosen
        else role
        for role in roles
    ]
    return Measured(given, found, path)


def _variables(port: int) -> dict[str, str]:
    return {f"{PREFIX}METRICS__HOST": ports.LOOPBACK, f"{PREFIX}METRICS__PORT": str(port)}

"""Runs a stack until its input ends: python -m tests.integration.local.owner FOLDER KIND…; prints its addresses.

The bootstrap servers, PostgreSQL's URL, the registry's URL (or -) and the services' process ids, one line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from streams.local import Cache, Stack, cache_directory
from streams.local.manifest import Artifact


def refuse(artifact: Artifact, folder: Path, advance: Callable[[int], None]) -> Path:
    """In place of the network."""
    raise ConnectionError(f"asked for {artifact.filename}")


def forbid_network() -> None:
    """Every look-up of a name and every connection that leaves this machine raises from now on."""

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        match event, arguments:
            case "socket.getaddrinfo", (host, *_) if host not in ("127.0.0.1", "localhost", None):
                raise PermissionError(f"looked up {host}")
            case "socket.connect", (_, (host, *_)) if host != "127.0.0.1":
                raise PermissionError(f"connected to {host}")

    sys.addaudithook(audit)


def main() -> None:
    """Start, tell, wait, stop."""
    import os

    folder, kinds = Path(sys.argv[1]), set(sys.argv[2:])
    if "offline" in kinds:
        forbid_network()
    cache = Cache(cache_directory(os.environ), fetch=refuse) if "offline" in kinds else None
    stack = Stack(
        folder,
        kafka="kafka" in kinds,
        postgres="postgres" in kinds,
        registry="registry" in kinds,
        valkey="valkey" in kinds,
        cache=cache,
    )
    with stack:
        addresses = stack.addresses
        sys.stdout.write(
            " ".join(
                [
                    addresses.bootstrap or "-",
                    addresses.postgres.url() if addresses.postgres else "-",
                    addresses.registry_url or "-",
                    *(str(service.pid) for service in stack.services.values()),
                ]
            )
            + "\n"
        )
        sys.stdout.flush()
        sys.stdin.readline()
    # jgo is what talks to the network; a start from a whole cache never loads it.
    sys.stdout.write(f"jgo loaded: {'jgo' in sys.modules}\n")


if __name__ == "__main__":
    main()

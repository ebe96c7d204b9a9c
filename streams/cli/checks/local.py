"""What is on this host: settings, the spool and its disk, and the cache."""

from __future__ import annotations

import ipaddress
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from streams.cli.checks.finding import Finding, fail, ok, warn
from streams.runtime.errors import ConfigurationError
from streams.runtime.settings import Settings

DISK_FAIL_BYTES = 256 * 2**20


def settings_(settings: Settings) -> Iterator[Finding]:
    said = False
    try:
        settings.identity.key()
    except ConfigurationError as exc:
        said = True
        yield fail("settings", str(exc), "set it, once and for good")
    if not _is_here(settings.postgres.host) and settings.postgres.sslmode not in ("verify-full", "verify-ca"):
        said = True
        yield warn(
            "settings",
            f"PostgreSQL is reached over a network with sslmode {settings.postgres.sslmode}",
            "set PLAYHEAD_POSTGRES__SSLMODE=verify-full",
        )
    brokers = [one.strip().rpartition(":")[0] for one in settings.kafka.bootstrap.split(",")]
    if settings.kafka.security_protocol == "PLAINTEXT" and not all(map(_is_here, brokers)):
        said = True
        yield warn(
            "settings", "Kafka is reached over a network in clear", "set PLAYHEAD_KAFKA__SECURITY_PROTOCOL=SASL_SSL"
        )
    if settings.failpoints:
        said = True
        yield fail("settings", "failpoints are armed: processes fail on purpose", "unset PLAYHEAD_FAILPOINTS")
    if not said:
        yield ok("settings", "complete; nothing goes over a network in clear")


def spool(settings: Settings) -> Iterator[Finding]:
    """Accepted reports wait here while Kafka or PostgreSQL is away: without room the door answers 503."""
    folder = settings.spool_dir
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    waiting = sum(_size(path) for path in folder.rglob("*") if path.is_file()) if folder.exists() else 0
    if not os.access(there, os.W_OK):
        yield fail("spool", f"{there} can't be written", "let the user that runs 'playhead serve' write there")
    says = f"{waiting / 2**20:.1f} MiB on disk, {free / 2**30:.1f} GiB free"
    if free < DISK_FAIL_BYTES:
        yield fail("spool", says, "make room: without it reports are answered 503 during an outage")
    elif free < settings.spool.bytes_max - waiting:
        yield warn("spool", f"{says}, less than it may grow by", "make room, or lower PLAYHEAD_SPOOL__BYTES_MAX")
    else:
        yield ok("spool", says)


def cache(settings: Settings) -> Iterator[Finding]:
    from valkey import Valkey
    from valkey.exceptions import ValkeyError

    from streams.runtime.cache import url_of

    url = url_of(settings)
    if url is None:
        yield ok("cache", "none is set: every read asks PostgreSQL")
        return
    client = Valkey.from_url(url, socket_timeout=2, socket_connect_timeout=2)
    try:
        client.ping()
        yield ok("cache", "Valkey answers")
    except (ValkeyError, OSError) as exc:
        yield warn(
            "cache",
            f"Valkey does not answer ({type(exc).__name__}): reads go to PostgreSQL",
            "start it, or unset PLAYHEAD_CACHE__URL",
        )
    finally:
        client.close()  # type: ignore[no-untyped-call]


def _is_here(host: str) -> bool:
    bare = host.strip("[]")
    if bare in ("", "localhost") or bare.startswith("/"):
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # drained meanwhile

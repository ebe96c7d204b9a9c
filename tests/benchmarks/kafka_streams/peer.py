"""Kafka Streams as a peer: compiled with the JDK at hand, with verified jars, run as a process of its own.

Settings are those a careful user would choose for rate: exactly_once_v2 with its default commit interval of 100 ms,
RocksDB with Streams' own configuration, lz4 as ours, one thread unless told otherwise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from streams.local import Cache, LocalStackError, cache_directory
from tests.benchmarks.engine_job import SCHEMAS
from tests.benchmarks.figures import Absent, Row
from tests.benchmarks.kafka_streams.manifest import load
from tests.benchmarks.processes import NoFigures, Settings, measure

PROGRAM = Path(__file__).with_name("BenchWorker.java")
COMMIT_INTERVAL_MS = 100
HEAP_MIB = 1024


@dataclass(frozen=True, slots=True)
class KafkaStreams:
    """The compiled worker. ``close`` removes what was compiled."""

    java: str
    classes: Path
    jars: Path

    def run(self, settings: Settings, *, threads: int = 1, caching: bool = False) -> Row:
        """One run on a group and a state directory of its own."""
        state = Path(settings["state_dir"])
        state.mkdir(parents=True, exist_ok=True)
        properties = {
            "application.id": settings["group"],
            "bootstrap.servers": settings["bootstrap"],
            "processing.guarantee": "exactly_once_v2",
            "commit.interval.ms": COMMIT_INTERVAL_MS,
            "num.stream.threads": threads,
            "state.dir": state,
            "replication.factor": 1,
            "auto.offset.reset": "earliest",
            "producer.compression.type": "lz4",
            "bench.source": settings["source"],
            "bench.out": settings["out"],
            "bench.records": settings["records"],
            "bench.warm": settings["warm"],
            "bench.schemas": SCHEMAS,
            "bench.caching": str(caching).lower(),
        }
        file = state / "bench.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), "utf-8")
        command = [
            self.java, f"-Xmx{HEAP_MIB}m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
            "-cp", f"{self.classes}{os.pathsep}{self.jars}/*", "BenchWorker", str(file),
        ]  # fmt: skip
        try:
            return measure(command)
        except NoFigures as error:
            return Absent(str(error))

    def close(self) -> None:
        """Remove the compiled classes."""
        shutil.rmtree(self.classes, ignore_errors=True)


def prepare() -> KafkaStreams | Absent:
    """Find a JDK, fetch and verify the jars, compile. Absent says what is missing."""
    javac = _jdk_program("javac")
    if javac is None:
        return Absent("no javac: install a JDK, 17 or newer, or set JAVA_HOME to one")
    try:
        jars = Cache(cache_directory(os.environ)).ensure(load())
    except (LocalStackError, ImportError) as error:
        return Absent(str(error))
    classes = Path(tempfile.mkdtemp(prefix="kafka-streams-bench-"))
    compiled = subprocess.run(
        [javac, "-nowarn", "-d", str(classes), "-cp", f"{jars}/*", str(PROGRAM)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if compiled.returncode != 0:
        shutil.rmtree(classes, ignore_errors=True)
        return Absent(f"{javac} failed: {compiled.stderr[-500:]}")
    # The class files are for this JDK's own runtime, or a newer one.
    return KafkaStreams(_jdk_program("java") or "java", classes, jars)


def _jdk_program(name: str) -> str | None:
    home = os.environ.get("JAVA_HOME")
    inside = Path(home, "bin", name) if home else None
    return str(inside) if inside is not None and inside.is_file() else shutil.which(name)

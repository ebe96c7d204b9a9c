"""The jars that Kafka Streams needs: coordinates, sizes and SHA-256, committed as manifest.json.

To move to other versions, edit the constants and regenerate (needs the network):

    python -m tests.benchmarks.kafka_streams.manifest
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from streams.local.manifest import KAFKA_VERSION, Artifact, Bundle, file_digest

AVRO_VERSION = "1.12.2"
SLF4J_VERSION = "1.7.36"
ROOTS = (
    f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",
    f"org.apache.avro:avro:{AVRO_VERSION}",
    f"org.slf4j:slf4j-simple:{SLF4J_VERSION}",
)

PATH = Path(__file__).with_name("manifest.json")


def load(path: Path = PATH) -> Bundle:
    """The committed bundle, for streams.local's Cache, which compares every byte with it."""
    content = json.loads(path.read_text("utf-8"))
    return Bundle("kafka-streams", content["version"], tuple(Artifact(**each) for each in content["artifacts"]))


def generate(folder: Path) -> Bundle:
    """Resolve through jgo's defaults into ``folder`` and describe what came."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=folder, timeout=60)
    inputs, transitive = context.resolver.resolve([context.create_dependency(root) for root in ROOTS])
    found = [d.artifact for d in (*inputs, *transitive) if d.scope in (None, "compile", "runtime")]
    return Bundle("kafka-streams", KAFKA_VERSION, tuple(sorted(map(_describe, found), key=lambda a: a.filename)))


def _describe(artifact: Any) -> Artifact:
    path = artifact.resolve()
    return Artifact(
        group=artifact.groupId, name=artifact.artifactId, version=artifact.version, classifier=artifact.classifier,
        packaging=artifact.packaging, size=path.stat().st_size, sha256=file_digest(path),
    )  # fmt: skip


def main() -> None:
    """Regenerate manifest.json. Two downloads must agree, else nothing is written."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        bundle = generate(Path(first))
        if bundle != generate(Path(second)):
            sys.exit("Two downloads differ, so one of them is damaged. Nothing was written; try again.")
    content = {"version": bundle.version, "artifacts": [asdict(artifact) for artifact in bundle.artifacts]}
    PATH.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    print(f"{bundle.name} {bundle.version}: {len(bundle.artifacts)} files, {bundle.size:,} bytes")


if __name__ == "__main__":
    main()

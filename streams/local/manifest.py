"""The files the embedded stack is made of: coordinates, sizes and SHA-256, committed as manifest.json.

A running stack believes only this file: names and versions come from it (no dependency resolution on a
user's machine) and every byte is compared with it. To move to other versions, edit KAFKA_VERSION or
REGISTRY_VERSION and regenerate (needs the network):

    python -m streams.local.manifest
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

KAFKA_VERSION = "4.3.1"
KAFKA_SCALA = "2.13"
REGISTRY_VERSION = "3.3.3"

PATH = Path(__file__).with_name("manifest.json")
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of the artefact repository. `size` in bytes, `sha256` in lower-case hex."""

    group: str
    name: str
    version: str
    classifier: str
    packaging: str
    size: int
    sha256: str

    @property
    def filename(self) -> str:
        """The file's name in the cache: unique within its bundle."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.{self.packaging}"


@dataclass(frozen=True, slots=True)
class Tree:
    """What one unpacked archive must look like: `sha256` is `tree_digest` of the folder."""

    files: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A set of files that are used together. With `unpacked`, it is one archive, used unpacked."""

    name: str
    version: str
    artifacts: tuple[Artifact, ...]
    unpacked: Tree | None = None

    @property
    def size(self) -> int:
        """Bytes to fetch."""
        return sum(artifact.size for artifact in self.artifacts)

    @property
    def folder(self) -> str:
        """Folder name in the cache; a new version never touches an older one's files."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """Everything that is fetched."""

    kafka: Bundle
    registry: Bundle


def load(path: Path = PATH) -> Manifest:
    """Read the committed manifest. Raises ValueError or KeyError if it is not one (a broken checkout)."""
    content = json.loads(path.read_text("utf-8"))
    return Manifest(kafka=_bundle("kafka", content["kafka"]), registry=_bundle("registry", content["registry"]))


def dump(manifest: Manifest, path: Path = PATH) -> None:
    """Write the manifest, one artefact a line, so that a version change is a readable diff."""
    content = {bundle.name: _plain(bundle) for bundle in (manifest.kafka, manifest.registry)}
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def file_digest(path: Path) -> str:
    """SHA-256 of a file, lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(root: Path) -> Tree:
    """One digest over the relative path, size and content of every file below root, in order of path.

    A file that was changed, cut, added, removed, renamed or replaced by a link gives another digest.
    """
    digest, count, size = hashlib.sha256(), 0, 0
    for path in sorted(path for path in root.rglob("*") if not path.is_dir() or path.is_symlink()):
        length = path.lstat().st_size
        content = "link" if path.is_symlink() else file_digest(path)
        digest.update(f"{path.relative_to(root).as_posix()}\0{length}\0{content}\n".encode())
        count, size = count + 1, size + length
    return Tree(files=count, size=size, sha256=digest.hexdigest())


def _bundle(name: str, content: dict[str, Any]) -> Bundle:
    unpacked = content.get("unpacked")
    return Bundle(
        name=name,
        version=content["version"],
        artifacts=tuple(Artifact(**artifact) for artifact in content["artifacts"]),
        unpacked=Tree(**unpacked) if unpacked else None,
    )


def _plain(bundle: Bundle) -> dict[str, Any]:
    plain: dict[str, Any] = {"version": bundle.version, "artifacts": [asdict(a) for a in bundle.artifacts]}
    if bundle.unpacked:
        plain["unpacked"] = asdict(bundle.unpacked)
    return plain


def generate(folder: Path) -> Manifest:
    """Resolve both bundles through jgo's defaults into `folder` and describe what came. Needs the network."""
    from jgo.maven import MavenContext

    context = MavenContext(repo_cache=folder, timeout=60)
    root = context.create_dependency(f"org.apache.kafka:kafka_{KAFKA_SCALA}:{KAFKA_VERSION}")
    inputs, transitive = context.resolver.resolve([root])
    kafka = [d.artifact for d in (*inputs, *transitive) if d.scope in (None, "compile", "runtime")]
    # Kafka logs through SLF4J and leaves the choice of a backend to its distribution. The bridge is added
    # alone: resolved together with Kafka, its version management would change Kafka's other jars.
    log4j = next(a.version for a in kafka if a.artifactId == "log4j-core")
    bridge = context.project("org.apache.logging.log4j", "log4j-slf4j-impl").at_version(log4j).artifact()
    app = context.project("io.apicurio", "apicurio-registry-app").at_version(REGISTRY_VERSION)
    archive = app.artifact(classifier="all", packaging="tar.gz")
    return Manifest(
        kafka=Bundle(
            "kafka",
            KAFKA_VERSION,
            tuple(sorted((_describe(a) for a in (*kafka, bridge)), key=lambda a: a.filename)),
        ),
        registry=Bundle(
            "registry", REGISTRY_VERSION, (_describe(archive),), _unpacked(archive.resolve(), folder / "tree")
        ),
    )


def _describe(artifact: Any) -> Artifact:
    path = artifact.resolve()
    return Artifact(
        group=artifact.groupId,
        name=artifact.artifactId,
        version=artifact.version,
        classifier=artifact.classifier,
        packaging=artifact.packaging,
        size=path.stat().st_size,
        sha256=file_digest(path),
    )


def _unpacked(archive: Path, folder: Path) -> Tree:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return tree_digest(folder)


def main() -> None:
    """Regenerate manifest.json. A second resolution must give the same files, else nothing is written."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        manifest = generate(Path(first))
        if manifest != generate(Path(second)):
            sys.exit("Two downloads differ, so one of them is damaged. Nothing was written; try again.")
    dump(manifest)
    for bundle in (manifest.kafka, manifest.registry):
        sys.stdout.write(f"{bundle.name} {bundle.version}: {len(bundle.artifacts)} files, {bundle.size:,} bytes\n")


if __name__ == "__main__":
    main()

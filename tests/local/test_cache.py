"""The download cache hands out only verified files, and touches the network only for what is missing or wrong."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from streams.local.cache import FETCH_ATTEMPTS, Cache, cache_directory
from streams.local.errors import CacheDamagedError, NoDiskSpaceError, NoNetworkError
from streams.local.manifest import Artifact, Bundle, load, tree_digest

JARS = {"one": b"first jar" * 100, "two": b"second jar" * 50}


def artifact(name: str, content: bytes, packaging: str = "jar") -> Artifact:
    digest = hashlib.sha256(content).hexdigest()
    return Artifact("group", name, "1.0", "", packaging, len(content), digest)


JAR_BUNDLE = Bundle("jars", "1", tuple(artifact(name, content) for name, content in JARS.items()))


class Repository:
    """Serves bytes by artefact name and remembers who was asked for."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = dict(files)
        self.asked: list[str] = []
        self.spoilt: dict[str, list[bytes]] = {}

    def __call__(self, artifact: Artifact, folder: Path, advance: Callable[[int], None]) -> Path:
        self.asked.append(artifact.name)
        wrong = self.spoilt.get(artifact.name)
        content = wrong.pop(0) if wrong else self.files[artifact.name]
        folder.mkdir(parents=True)
        path = folder / artifact.filename
        path.write_bytes(content)
        advance(len(content))
        return path


def no_network(artifact: Artifact, folder: Path, advance: Callable[[int], None]) -> Path:
    raise ConnectionError("network is unreachable")


def test_given_an_empty_cache_then_all_is_fetched_once(tmp_path: Path) -> None:
    repository = Repository(JARS)
    folder = Cache(tmp_path, fetch=repository).ensure(JAR_BUNDLE)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        f"{name}-1.0.jar": content for name, content in JARS.items()
    }
    assert sorted(repository.asked) == ["one", "two"]


def test_given_a_whole_cache_then_nothing_is_fetched(tmp_path: Path) -> None:
    first = Cache(tmp_path, fetch=Repository(JARS)).ensure(JAR_BUNDLE)
    assert Cache(tmp_path, fetch=no_network).ensure(JAR_BUNDLE) == first


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["truncated", "one byte changed", "empty", "missing"],
)
def test_given_one_damaged_file_then_only_that_is_fetched_again(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = Cache(tmp_path, fetch=Repository(JARS)).ensure(JAR_BUNDLE)
    damage(folder / "one-1.0.jar")
    repository = Repository(JARS)
    Cache(tmp_path, fetch=repository).ensure(JAR_BUNDLE)
    assert repository.asked == ["one"]
    assert (folder / "one-1.0.jar").read_bytes() == JARS["one"]


def test_given_a_link_in_place_of_a_file_then_it_is_replaced_by_a_file(tmp_path: Path) -> None:
    folder = Cache(tmp_path, fetch=Repository(JARS)).ensure(JAR_BUNDLE)
    elsewhere = tmp_path / "elsewhere"
    os.replace(folder / "one-1.0.jar", elsewhere)
    (folder / "one-1.0.jar").symlink_to(elsewhere)
    Cache(tmp_path, fetch=Repository(JARS)).ensure(JAR_BUNDLE)
    assert not (folder / "one-1.0.jar").is_symlink()


def test_given_a_foreign_file_then_it_does_not_stay_on_the_class_path(tmp_path: Path) -> None:
    folder = Cache(tmp_path, fetch=Repository(JARS)).ensure(JAR_BUNDLE)
    (folder / "evil.jar").write_bytes(b"x")
    (folder / "sub").mkdir()
    Cache(tmp_path, fetch=no_network).ensure(JAR_BUNDLE)
    assert sorted(path.name for path in folder.iterdir()) == ["one-1.0.jar", "two-1.0.jar"]


def test_given_a_cut_download_then_it_is_tried_again(tmp_path: Path) -> None:
    repository = Repository(JARS)
    repository.spoilt["one"] = [JARS["one"][:10]]
    folder = Cache(tmp_path, fetch=repository).ensure(JAR_BUNDLE)
    assert (folder / "one-1.0.jar").read_bytes() == JARS["one"]
    assert sorted(repository.asked) == ["one", "one", "two"]


def test_given_only_wrong_downloads_then_an_error_names_file_and_digests_and_nothing_wrong_is_kept(
    tmp_path: Path,
) -> None:
    repository = Repository(JARS | {"one": b"something else"})
    with pytest.raises(CacheDamagedError, match=r"one-1\.0\.jar.*expected 900 bytes") as caught:
        Cache(tmp_path, fetch=repository).ensure(JAR_BUNDLE)
    assert str(tmp_path) in str(caught.value)
    assert repository.asked.count("one") == FETCH_ATTEMPTS
    assert not (tmp_path / JAR_BUNDLE.folder / "one-1.0.jar").exists()
    assert not list(tmp_path.glob("fetching-*"))


def test_given_no_network_at_first_use_then_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoNetworkError, match="first start needs a network connection"):
        Cache(tmp_path, fetch=no_network).ensure(JAR_BUNDLE)


def test_given_a_damaged_file_and_no_network_then_it_is_not_used(tmp_path: Path) -> None:
    folder = Cache(tmp_path, fetch=Repository(JARS)).ensure(JAR_BUNDLE)
    (folder / "one-1.0.jar").write_bytes(b"cut")
    with pytest.raises(NoNetworkError, match=r"one-1\.0\.jar"):
        Cache(tmp_path, fetch=no_network).ensure(JAR_BUNDLE)


def test_given_a_disk_too_small_then_nothing_is_fetched(tmp_path: Path) -> None:
    repository = Repository(JARS)
    huge = Bundle("jars", "1", (Artifact("group", "one", "1.0", "", "jar", 1 << 60, "0" * 64),))
    with pytest.raises(NoDiskSpaceError, match="Free some space"):
        Cache(tmp_path, fetch=repository).ensure(huge)
    assert repository.asked == []


def test_given_a_killed_download_then_its_leftovers_go(tmp_path: Path) -> None:
    (tmp_path / "fetching-abc").mkdir()
    (tmp_path / "fetching-abc" / "half.jar").write_bytes(b"half")
    Cache(tmp_path, fetch=Repository(JARS)).ensure(JAR_BUNDLE)
    assert not (tmp_path / "fetching-abc").exists()


def archive_bundle(tmp_path: Path) -> tuple[Bundle, bytes]:
    tree = tmp_path / "tree"
    (tree / "lib").mkdir(parents=True)
    (tree / "run.jar").write_bytes(b"main")
    (tree / "lib" / "a.jar").write_bytes(b"library")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(tree, arcname=".")
    content = buffer.getvalue()
    return Bundle("app", "1", (artifact("app", content, "tar.gz"),), tree_digest(tree)), content


@pytest.mark.parametrize("damage", ["changed", "removed", "added", "linked"])
def test_given_a_damaged_unpacked_tree_then_it_is_made_anew(tmp_path: Path, damage: str) -> None:
    bundle, content = archive_bundle(tmp_path)
    cache = Cache(tmp_path / "cache", fetch=Repository({"app": content}))
    folder = cache.ensure(bundle)
    target = folder / "lib" / "a.jar"
    match damage:
        case "changed":
            target.write_bytes(b"Library")
        case "removed":
            target.unlink()
        case "added":
            (folder / "lib" / "b.jar").write_bytes(b"")
        case _:
            target.unlink()
            target.symlink_to(tmp_path / "tree" / "lib" / "a.jar")
    cache.ensure(bundle)
    assert tree_digest(folder) == bundle.unpacked


def test_given_a_whole_unpacked_tree_then_nothing_is_fetched(tmp_path: Path) -> None:
    bundle, content = archive_bundle(tmp_path)
    Cache(tmp_path / "cache", fetch=Repository({"app": content})).ensure(bundle)
    Cache(tmp_path / "cache", fetch=no_network).ensure(bundle)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"PLAYHEAD_CACHE": "/a b", "XDG_CACHE_HOME": "/xdg"}, Path("/a b")),
        ({"XDG_CACHE_HOME": "/xdg"}, Path("/xdg/playhead")),
        ({"XDG_CACHE_HOME": "relative"}, Path.home() / ".cache" / "playhead"),
        ({}, Path.home() / ".cache" / "playhead"),
    ],
)
def test_given_an_environment_then_the_cache_folder_follows_the_xdg_rules(
    environ: dict[str, str], expected: Path
) -> None:
    assert cache_directory(environ) == expected


def test_given_a_dead_proxy_then_jgo_s_failure_becomes_our_error(tmp_path: Path) -> None:
    # The real way out, in a process of its own: jgo, with every request sent to a closed port.
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from streams.local.cache import Cache\n"
        "from streams.local.errors import NoNetworkError\n"
        "from streams.local.manifest import load\n"
        "try:\n"
        "    Cache(Path(sys.argv[1])).ensure(load().kafka)\n"
        "except NoNetworkError as error:\n"
        "    print('refused', error)\n"
    )
    environ = {**os.environ, "HTTPS_PROXY": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("refused ")
    assert "ProxyError" in done.stdout


def test_given_the_committed_manifest_then_it_is_complete_and_of_one_kafka() -> None:
    manifest = load()
    artifacts = (*manifest.kafka.artifacts, *manifest.registry.artifacts)
    assert all(len(a.sha256) == 64 and a.size > 0 for a in artifacts)
    assert len({a.filename for a in manifest.kafka.artifacts}) == len(manifest.kafka.artifacts)
    # A resolver that lets another project's version management decide gives an older kafka-clients.
    assert {a.version for a in manifest.kafka.artifacts if a.group == "org.apache.kafka"} == {manifest.kafka.version}
    assert manifest.kafka.version.startswith("4.3.")
    assert {a.name for a in manifest.kafka.artifacts} >= {"kafka_2.13", "log4j-core", "log4j-slf4j-impl"}
    assert manifest.registry.unpacked is not None

"""The download cache: files of a manifest bundle, fetched once, checked at every use.

Layout of the cache folder, safe to delete at any time while no stack starts:

    kafka-<version>/    exactly the jars of the manifest, nothing else
    registry-<version>/ the unpacked archive
    fetching-*/         a download under way; leftovers of killed ones are removed by the next

`ensure` compares every byte with the manifest before handing out a folder. Only what is missing or wrong is
fetched; when all is right, the network is not touched (jgo is not even imported). jgo itself only warns about a
wrong checksum and leaves truncated files behind, so it downloads into a folder of its own, and a file moves to
its place only after its SHA-256 was right.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from streams.local.errors import (
    CacheDamagedError,
    LocalStackError,
    NoDiskSpaceError,
    NoNetworkError,
    StartCancelledError,
)
from streams.local.manifest import Artifact, Bundle, file_digest, tree_digest
from streams.local.progress import Progress, SilentProgress

CACHE_VARIABLE = "PLAYHEAD_CACHE"
FETCH_ATTEMPTS = 3
FETCH_PARALLEL = 4
FETCH_TIMEOUT_S = 60
# Room for the download itself, and for an archive unpacked beside it.
SPACE_RESERVE_BYTES = 64 << 20


class Fetch(Protocol):
    """Downloads one artefact into a folder and returns where it is. Raises OSError or RuntimeError."""

    def __call__(self, artifact: Artifact, folder: Path, advance: Callable[[int], None]) -> Path: ...


def cache_directory(environ: Mapping[str, str]) -> Path:
    """$PLAYHEAD_CACHE, else playhead/ in $XDG_CACHE_HOME, else ~/.cache/playhead. Not created here.

    A relative $XDG_CACHE_HOME is ignored, as the XDG Base Directory Specification demands.
    """
    if chosen := environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    base = Path(environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "playhead"


def fetch_with_jgo(artifact: Artifact, folder: Path, advance: Callable[[int], None]) -> Path:
    """Download one artefact through jgo's defaults. `advance` is told the bytes as they come."""
    from jgo.maven import MavenContext, PythonResolver

    @contextmanager
    def report(_name: str, _size: int) -> Iterator[Callable[[int], None]]:
        yield advance

    context = MavenContext(
        resolver=PythonResolver(progress_callback=report), repo_cache=folder, timeout=FETCH_TIMEOUT_S
    )
    component = context.project(artifact.group, artifact.name).at_version(artifact.version)
    path: Path = component.artifact(classifier=artifact.classifier, packaging=artifact.packaging).resolve()
    return path


class Cache:
    """The cache folder of one user. Safe to use from several processes at once."""

    def __init__(self, folder: Path, *, progress: Progress | None = None, fetch: Fetch = fetch_with_jgo) -> None:
        self.folder = folder
        self._progress = progress or SilentProgress()
        self._fetch = fetch
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        """Let downloads under way in other threads give up with StartCancelledError."""
        self._cancelled.set()

    def ensure(self, bundle: Bundle) -> Path:
        """The folder with exactly the bundle's files, every one verified in this call.

        Raises NoNetworkError, NoDiskSpaceError or CacheDamagedError; then no wrong file is in its place.
        """
        target = self.folder / bundle.folder
        if self._whole(bundle, target):
            return target
        self._cancelled.clear()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._lock():
            # Another process may have repaired it while this one waited.
            if not self._whole(bundle, target):
                self._clear_leftovers()
                if bundle.unpacked:
                    self._fetch_tree(bundle, target)
                else:
                    self._fetch_files(bundle, target)
        return target

    @staticmethod
    def _whole(bundle: Bundle, target: Path) -> bool:
        if not target.is_dir():
            return False
        if bundle.unpacked:
            return tree_digest(target) == bundle.unpacked
        expected = {artifact.filename for artifact in bundle.artifacts}
        return {path.name for path in target.iterdir()} == expected and all(
            _is(artifact, target / artifact.filename) for artifact in bundle.artifacts
        )

    def _fetch_files(self, bundle: Bundle, target: Path) -> None:
        target.mkdir(exist_ok=True)
        by_name = {artifact.filename: artifact for artifact in bundle.artifacts}
        for path in target.iterdir():
            # The class path is a wildcard: whatever lies here would be loaded.
            if path.name not in by_name:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        wrong = [a for a in bundle.artifacts if not _is(a, target / a.filename)]
        self._check_space(sum(artifact.size for artifact in wrong))
        with (
            self._staging() as staging,
            self._progress.task(_title(bundle), _size(wrong)) as advance,
            ThreadPoolExecutor(FETCH_PARALLEL) as pool,
        ):
            fetched = pool.map(lambda artifact: self._download(artifact, staging, advance), wrong)
            for artifact, path in zip(wrong, fetched, strict=True):
                os.replace(path, target / artifact.filename)

    def _fetch_tree(self, bundle: Bundle, target: Path) -> None:
        [archive] = bundle.artifacts
        assert bundle.unpacked is not None
        self._check_space(archive.size + bundle.unpacked.size)
        with self._staging() as staging:
            with self._progress.task(_title(bundle), archive.size) as advance:
                path = self._download(archive, staging, advance)
            unpacked = staging / "unpacked"
            with tarfile.open(path) as tar:
                # The archive's digest was right; the filter is the second lock: no links or paths out of it.
                tar.extractall(unpacked, filter="data")
            found = tree_digest(unpacked)
            if found != bundle.unpacked:
                raise CacheDamagedError(_title(bundle), self.folder, f"unpacked to {found}")
            if target.exists():
                shutil.rmtree(target)
            os.replace(unpacked, target)

    def _download(self, artifact: Artifact, staging: Path, advance: Callable[[int], None]) -> Path:
        """One verified file in staging, after at most FETCH_ATTEMPTS tries, each from nothing."""
        problem: LocalStackError | None = None
        for attempt in range(FETCH_ATTEMPTS):
            received = 0

            def count(size: int) -> None:
                nonlocal received
                if self._cancelled.is_set():
                    raise StartCancelledError(f"Fetching {artifact.filename}")
                received += size
                advance(size)

            try:
                path = self._fetch(artifact, staging / f"{artifact.filename}.{attempt}", count)
            except (OSError, RuntimeError) as error:
                # requests' errors are OSErrors; jgo raises RuntimeError when the repository has no such file.
                problem = NoNetworkError(artifact.filename, self.folder, f"{type(error).__name__}: {error}")
            else:
                if _is(artifact, path):
                    return path
                problem = CacheDamagedError(
                    artifact.filename,
                    self.folder,
                    f"expected {artifact.size} bytes with SHA-256 {artifact.sha256}, "
                    f"got {path.stat().st_size} bytes with {file_digest(path)}",
                )
            advance(-received)
        assert problem is not None
        raise problem

    def _check_space(self, size: int) -> None:
        needed = size + SPACE_RESERVE_BYTES
        if (free := shutil.disk_usage(self.folder).free) < needed:
            raise NoDiskSpaceError(self.folder, needed, free)

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        # In the cache folder, so that the last step is a rename within one file system.
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=self.folder) as folder:
            yield Path(folder)

    def _clear_leftovers(self) -> None:
        for path in self.folder.glob("fetching-*"):
            shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _is(artifact: Artifact, path: Path) -> bool:
    if not path.is_file() or path.is_symlink() or path.stat().st_size != artifact.size:
        return False
    return file_digest(path) == artifact.sha256


def _size(artifacts: list[Artifact]) -> int:
    return sum(artifact.size for artifact in artifacts)


def _title(bundle: Bundle) -> str:
    names = {"kafka": "Apache Kafka", "registry": "Apicurio Registry"}
    return f"{names.get(bundle.name, bundle.name)} {bundle.version}"

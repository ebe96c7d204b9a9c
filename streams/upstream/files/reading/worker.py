"""The process that reads tags: hostile files meet C code and parsers here, and nowhere else.

A socket on standard input brings a line of JSON and with it an open descriptor; a line of JSON goes back. The process
has no names of files, can open none for writing, and is bounded in memory, time and descriptors. Whoever started it
kills it when it takes too long.

    {"id": 7, "reader": "tinytag", "suffix": "mp3"}
    {"id": 7, "hash": "…", "tags": {"title": ["…"]}, "duration_ms": 1000}    or    {"id": 7, "error": "corrupt"}
"""

from __future__ import annotations

import io
import json
import os
import resource
import socket
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, BinaryIO, Final, cast

from streams.upstream.files.reading.content import content_hash

MEMORY_BYTES: Final = 1024 * 1024 * 1024
CPU_S: Final = 600
DESCRIPTORS: Final = 64
READ_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of one file; tags and indexes are at its ends."""
REQUEST_BYTES: Final = 96
"""Of each request, filled up with spaces: so one is never read together with the next one's descriptor."""
ANSWER_BYTES_MAX: Final = 64 * 1024
TEXT_BYTES_MAX: Final = 1024
VALUES_MAX: Final = 16

_WANTED: Final = """
    title artist artists albumartist album year track tracktotal disc disctotal genre series movementname isbn asin
    audibleasin imdb tmdb tvdb ufid musicbrainztrackid musicbrainzreleasetrackid musicbrainzalbumid
    musicbrainzalbumartistid
"""
WANTED: Final = frozenset(_WANTED.split())
_MEDIAINFO: Final = {
    "movie": "title",
    "performer": "artist",
    "albumperformer": "albumartist",
    "recordeddate": "year",
    "releaseddate": "year",
    "trackposition": "track",
    "partposition": "disc",
}


class TooMuch(Exception):
    """A parser wants to read more of a file than tags can need."""


class Budgeted(io.RawIOBase):
    """A file of which only so many bytes are read."""

    def __init__(self, descriptor: int, budget: int = READ_BYTES_MAX) -> None:
        self._file = io.FileIO(descriptor, closefd=False)
        self._budget = budget

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any, /) -> int:
        count = self._file.readinto(buffer) or 0
        self._budget -= count
        if self._budget < 0:
            raise TooMuch
        return count


def answer(request: dict[str, Any], descriptor: int) -> dict[str, Any]:
    """What is in the file, or why that can't be told."""
    try:
        hashed = content_hash(descriptor)
        file = cast(BinaryIO, io.BufferedReader(Budgeted(descriptor), 32 * 1024))
        tags: dict[str, list[str]] = {}
        duration: float | None = None
        missing = False
        try:
            by_mediainfo = request["reader"] == "mediainfo"
            for name, value in _mediainfo(file) if by_mediainfo else _tinytag(file, request["suffix"]):
                if name == "duration":
                    duration = duration or float(str(value))
                else:
                    _keep(tags, name, value)
        except LibraryMissing:
            missing = True
    except OSError:
        return {"error": "io_error"}
    except TooMuch:
        return {"error": "too_much_read"}
    except Exception as exc:
        return {"error": "too_much_read" if isinstance(exc.__cause__, TooMuch) else "corrupt"}
    ms = round(duration * 1000) if duration is not None and 0 < duration < 2**31 else None
    return {"hash": hashed, "tags": tags, "duration_ms": ms, "library_missing": missing}


class LibraryMissing(Exception):
    """MediaInfo's library can't be loaded here."""


def _tinytag(file: BinaryIO, suffix: str) -> Iterator[tuple[str, object]]:
    from tinytag import TinyTag, UnsupportedFormatError

    try:
        found = TinyTag.get(f"x.{suffix}", file)
    except UnsupportedFormatError:
        return
    yield "duration", found.duration or 0
    for name in ("title", "artist", "albumartist", "album", "year", "track", "disc", "genre"):
        yield name, getattr(found, name)
    yield "tracktotal", found.track_total
    yield "disctotal", found.disc_total
    for name, values in found.other.items():
        for value in values:
            yield name, value


def _mediainfo(file: BinaryIO) -> Iterator[tuple[str, object]]:
    from pymediainfo import MediaInfo

    try:
        text = MediaInfo.parse(file, output="JSON", full=False, parse_speed=0.3)
    except OSError as exc:
        if "library" in str(exc):
            raise LibraryMissing from None
        raise
    tracks = (json.loads(text).get("media") or {}).get("track") or []
    general: dict[str, Any] = next((track for track in tracks if track.get("@type") == "General"), {})
    if not any(track.get("@type") in ("Video", "Audio") for track in tracks):
        raise ValueError("nothing to see or hear")
    yield "duration", general.get("Duration") or 0
    extra = general.get("extra")
    for name, value in [*general.items(), *(extra.items() if isinstance(extra, dict) else ())]:
        if name != "Duration" and isinstance(value, str):
            yield _MEDIAINFO.get(_plain(name), name), value


@lru_cache(1_000)
def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _keep(tags: dict[str, list[str]], name: str, value: object) -> None:
    plain = _plain(name)
    if plain not in WANTED or value is None:
        return
    kept = tags.setdefault(plain, [])
    text = str(value).encode("utf-8", "replace")[:TEXT_BYTES_MAX].decode("utf-8", "ignore").strip()
    if text and len(kept) < VALUES_MAX and text not in kept:
        kept.append(text)


def confine() -> None:
    """From here on this process has little to waste."""
    for what, amount in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_NOFILE, DESCRIPTORS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        resource.setrlimit(what, (amount, amount))


def main() -> None:
    confine()
    connection = socket.socket(fileno=os.dup(0))
    while True:
        line, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 1)
        while line and len(line) < REQUEST_BYTES:
            line += connection.recv(REQUEST_BYTES - len(line))
        if not line:
            sys.exit(0)
        request = json.loads(line)
        try:
            document = {**answer(request, descriptors[0]), "id": request["id"]}
        finally:
            os.close(descriptors[0])
        packed = json.dumps(document).encode()
        if len(packed) >= ANSWER_BYTES_MAX:
            packed = json.dumps({"error": "too_much_read", "id": request["id"]}).encode()
        connection.sendall(packed + b"\n")

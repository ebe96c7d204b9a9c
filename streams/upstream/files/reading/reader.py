"""The other side of the worker: asks it about one open file at a time, and replaces it when it fails."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import streams
from streams.upstream.files.errors import Unread
from streams.upstream.files.kinds import Kind
from streams.upstream.files.reading import worker

TIMEOUT_S: Final = 15.0
FILES_MAX: Final = 5_000
"""A worker reads so many, then another takes its place: what leaks ends with it."""
_HOME: Final = str(Path(streams.__file__).resolve().parent.parent)
_RUN: Final = f"import sys; sys.path.insert(0, sys.argv[1]); from {worker.__name__} import main; main()"
_CAUSES: Final = frozenset({"io_error", "corrupt", "too_much_read"})


@dataclass(frozen=True, slots=True)
class Contents:
    """``tags``: by plain name (worker.WANTED), each with at least one text. ``library_missing``: the format could not
    be looked into here."""

    content_hash: str
    tags: dict[str, tuple[str, ...]]
    duration_ms: int | None
    library_missing: bool = False


class Reader:
    """One worker, started when it is first needed. Not for several threads at once."""

    def __init__(
        self, *, timeout_s: float = TIMEOUT_S, files_max: int = FILES_MAX, command: Sequence[str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._files_max = files_max
        self._command = list(command or (sys.executable, "-I", "-c", _RUN, _HOME))
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._asked = 0
        self.started = 0
        """Workers so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker; another one is started when there is something to read again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def read(self, descriptor: int, kind: Kind, suffix: str) -> Contents:
        """What is in an open file, whose descriptor stays the caller's. Raises Unread; that ends only this file."""
        if self._asked >= self._files_max:
            self.close()
        try:
            try:
                line = self._exchange(descriptor, kind, suffix)
            except BrokenPipeError:
                self.close()  # it had ended before it was asked
                line = self._exchange(descriptor, kind, suffix)
            return _contents(line, self._asked)
        except TimeoutError:
            self.close()
            raise Unread("reader_timeout") from None
        except OSError:
            self.close()
            raise Unread("reader_crashed") from None
        except Unread as exc:
            if exc.cause not in _CAUSES:
                self.close()
            raise

    def _exchange(self, descriptor: int, kind: Kind, suffix: str) -> bytes:
        connection = self._connected()
        self._asked += 1
        request = json.dumps({"id": self._asked, "reader": kind.reader, "suffix": suffix}).encode()
        deadline = time.monotonic() + self._timeout_s
        connection.settimeout(self._timeout_s)
        socket.send_fds(connection, [request], [descriptor])
        taken = bytearray()
        while not taken.endswith(b"\n"):
            connection.settimeout(max(deadline - time.monotonic(), 0.001))
            part = connection.recv(worker.ANSWER_BYTES_MAX + 1)
            if not part:
                raise Unread("reader_crashed")
            taken += part
            if len(taken) > worker.ANSWER_BYTES_MAX:
                raise Unread("bad_answer")
        return bytes(taken)

    def _connected(self) -> socket.socket:
        if self._connection is not None:
            return self._connection
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
                start_new_session=True,
            )
        self._connection = ours
        self._asked = 0
        self.started += 1
        return ours


class Readers:
    """Several of them for several threads."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.size = len(readers)
        self._all = readers
        self._idle: queue.SimpleQueue[Reader] = queue.SimpleQueue()
        for reader in readers:
            self._idle.put(reader)

    @contextmanager
    def one(self) -> Iterator[Reader]:
        """One that nobody else has meanwhile."""
        reader = self._idle.get()
        try:
            yield reader
        finally:
            self._idle.put(reader)

    def close(self) -> None:
        for reader in self._all:
            reader.close()


def _contents(line: bytes, asked: int) -> Contents:
    """The worker's word, of which nothing is believed unseen."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise Unread("bad_answer") from None
    match document:
        case {"id": int(number)} if number != asked:
            raise Unread("bad_answer")
        case {"error": str(cause)}:
            raise Unread(cause if cause in _CAUSES else "bad_answer")
        case {"hash": str(digest), "tags": dict(tags), "duration_ms": duration} if len(digest) == 32:
            return Contents(digest, _tags(tags), _duration(duration), document.get("library_missing") is True)
        case _:
            raise Unread("bad_answer")


def _tags(tags: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    found = {}
    for name, values in tags.items():
        if name in worker.WANTED and isinstance(values, list):
            texts = tuple(text for text in values[: worker.VALUES_MAX] if isinstance(text, str) and text)
            if texts:
                found[name] = texts
    return found


def _duration(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value < 2**53 else None

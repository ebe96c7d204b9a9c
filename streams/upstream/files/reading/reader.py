"""The other side of the worker: asks it about one open file at a time, and replaces it when it fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
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


@dataclass(slots=True)
class _Asked:
    descriptor: int
    request: bytes
    number: int
    since: float


class Reader:
    """One worker, started when it is first needed, asked about a few files ahead. Not for several threads at once.

    Answers come in the order of the questions. When the worker fails, the file it was at has failed; a new worker is
    asked about the others again.
    """

    def __init__(
        self, *, timeout_s: float = TIMEOUT_S, files_max: int = FILES_MAX, command: Sequence[str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._files_max = files_max
        self._command = list(command or (sys.executable, "-I", "-c", _RUN, _HOME))
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._waiting: deque[_Asked] = deque()
        self._taken = bytearray()
        self._numbers = 0
        self._read = 0
        self.started = 0
        """Workers so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker and forget what it was asked; another one is started when there is something to read."""
        self._waiting.clear()
        self._end()

    def ask(self, descriptor: int, kind: Kind, suffix: str) -> None:
        """Ask what is in an open file, whose descriptor stays the caller's and must stay open until ``take``."""
        self._numbers += 1
        document = {"id": self._numbers, "reader": kind.reader, "suffix": suffix}
        request = json.dumps(document).encode().ljust(worker.REQUEST_BYTES)
        assert len(request) == worker.REQUEST_BYTES
        asked = _Asked(descriptor, request, self._numbers, time.monotonic())
        if self._connection is not None and (self._read < self._files_max or self._waiting):
            with suppress(OSError):  # it is noticed, and mended, when the answer is taken
                socket.send_fds(self._connection, [request], [descriptor])
        elif not self._waiting:
            self._end()
            with suppress(OSError):
                self._begin([asked])
        self._waiting.append(asked)

    def take(self) -> Contents:
        """The answer to the oldest question that has none. Raises Unread; that ends only this file."""
        head = self._waiting[0]
        head.since = time.monotonic()
        try:
            if self._connection is None:
                self._begin(self._waiting)
            return _contents(self._line(head), head.number)
        except TimeoutError:
            self._end()
            raise Unread("reader_timeout") from None
        except OSError:
            self._end()
            raise Unread("reader_crashed") from None
        except Unread as exc:
            if exc.cause not in _CAUSES:
                self._end()
            raise
        finally:
            self._waiting.popleft()
            self._read += 1

    def read(self, descriptor: int, kind: Kind, suffix: str) -> Contents:
        """Ask and take, when nothing else was asked."""
        self.ask(descriptor, kind, suffix)
        return self.take()

    def _line(self, head: _Asked) -> bytes:
        assert self._connection is not None
        while (end := self._taken.find(b"\n")) < 0:
            if len(self._taken) > worker.ANSWER_BYTES_MAX:
                raise Unread("bad_answer")
            self._connection.settimeout(max(head.since + self._timeout_s - time.monotonic(), 0.001))
            part = self._connection.recv(worker.ANSWER_BYTES_MAX)
            if not part:
                raise Unread("reader_crashed")
            self._taken += part
        line = bytes(self._taken[:end])
        del self._taken[: end + 1]
        return line

    def _begin(self, asked: Iterable[_Asked]) -> None:
        """Start a worker and ask it."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"},
                cwd="/",
                # A group of its own, which Ctrl-C does not reach; the session of the worker, which gives way whole.
                process_group=0,
            )
        self._connection = ours
        self._read = 0
        self.started += 1
        ours.settimeout(self._timeout_s)
        for one in asked:
            socket.send_fds(ours, [one.request], [one.descriptor])

    def _end(self) -> None:
        self._taken.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


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

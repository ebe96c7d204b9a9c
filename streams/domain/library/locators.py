"""Paths inside a source: what is one, which two mean the same, what lies above.

A path is bytes, relative to the root, parts joined by ``/``. Names that are not UTF-8 are kept as they are.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from streams.domain.library.invalid import Invalid
from streams.domain.library.limits import PATH_BYTES_MAX


def check(path: bytes, *, file: bool) -> None:
    """Return when ``path`` can be one; of a ``file`` in a tree, not of what a server gives. Raises Invalid."""
    if len(path) > PATH_BYTES_MAX:
        raise Invalid(f"a path of {len(path)} bytes, {PATH_BYTES_MAX} are allowed")
    if b"\0" in path:
        raise Invalid("a NUL in a path")
    if not file:
        return
    # Most paths have none of these anywhere.
    if path[:1] == b"/" or b"//" in path or path[-1:] == b"/":
        raise Invalid("a path must be relative, without empty parts")
    if b"." in path and any(part in (b".", b"..") for part in path.split(b"/")):
        raise Invalid("a path must not have . or .. in it")


def canonical(path: bytes, *, folds: bool) -> bytes:
    """The form that is equal for paths of one meaning: NFC, and without case where the file system folds it.

    Bytes that are not UTF-8 have no other form. (Unicode Standard Annex 15; case folding as in its section 3.13.)
    """
    if path.isascii():
        return path.lower() if folds else path
    try:
        text = unicodedata.normalize("NFC", path.decode())
    except UnicodeDecodeError:
        return path
    return (unicodedata.normalize("NFC", text.casefold()) if folds else text).encode()


def text(path: bytes) -> str:
    """The path as text, for computed ids: bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def above(path: bytes) -> Iterator[bytes]:
    """The path itself, then each folder above it, at last the root (empty)."""
    yield path
    end = path.rfind(b"/")
    while end > 0:
        yield path[:end]
        end = path.rfind(b"/", 0, end)
    if path:
        yield b""


def top(path: bytes) -> bytes:
    """The root's entry that holds ``path``, in canonical form without case. Of an absolute path the first part."""
    return canonical(path.lstrip(b"/").split(b"/", 1)[0], folds=True)

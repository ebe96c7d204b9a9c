"""What can go wrong with a tree as a whole, or with reading one file. Messages hold no paths."""

from __future__ import annotations

from streams.runtime.errors import PlayheadError, Transient


class RootMissing(PlayheadError):
    """The root is not there, no folder, can't be read, or is another one than when the walk began."""


class OutOfDescriptors(Transient):
    """This process or machine has no descriptors or memory left, which says nothing about the tree."""


class Unread(PlayheadError):
    """What is in a file could not be read. ``cause``: io_error, corrupt, too_much_read, reader_crashed,
    reader_timeout, bad_answer."""

    def __init__(self, cause: str) -> None:
        super().__init__(cause)
        self.cause = cause


class Changed(PlayheadError):
    """A file is another one, or has another size or mtime, than when it was listed: it is still being written."""

"""Rows that outlive the build that wrote them: one version byte, then the value in that version's format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from .errors import Crash, Refused

T = TypeVar("T")


class Versioned(Generic[T]):
    """Writes the newest version, reads every version there was; a row is upgraded when it is next written.

    A changelog is never rewritten as a whole, so a version may be dropped only when no row of it can be left.
    Keep golden bytes of every version in your tests.
    """

    def __init__(self, encode: Callable[[T], bytes], decode: Mapping[int, Callable[[bytes], T]]) -> None:
        """``decode``: for each version, from 0 to 255, its body to a value of today; it raises ValueError on what
        is none. ``encode`` makes bodies of the largest.
        """
        if not decode or min(decode) < 0 or max(decode) > 255:
            raise Refused("versions of rows are numbers from 0 to 255")
        self._decode = dict(decode)
        self._encode = encode
        self.newest = max(decode)
        self._prefix = bytes((self.newest,))

    def dump(self, value: T) -> bytes:
        """Return the row of ``value``."""
        return self._prefix + self._encode(value)

    def load(self, row: bytes) -> T:
        """Return the value in ``row``, of whatever version.

        Raises Refused (exit 78) for a newer version: going on would lose what it knows. Raises Crash for
        damage: deleting the local state lets it be rebuilt from the changelog.
        """
        if not row:
            raise Crash("a damaged row: it has no bytes")
        decode = self._decode.get(row[0])
        if decode is None:
            if row[0] > self.newest:
                raise Refused(
                    f"a row of version {row[0]}, this build knows up to {self.newest}: a newer build has written "
                    "this state. Upgrade this one; its state is as it was."
                )
            raise Refused(f"a row of version {row[0]}, which this build no longer reads. Use one that does.")
        try:
            return decode(row[1:])
        except ValueError as error:
            raise Crash(f"a damaged row of version {row[0]}: {error}") from error

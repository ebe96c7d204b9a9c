"""A table of an agent as a dictionary."""

from __future__ import annotations

from collections.abc import Iterator


class DictRows(dict[bytes, bytes]):
    """As much of ``streams.engine.Table`` as agents use; deleting what is not there is fine, as it is with that."""

    def scan(self, prefix: bytes = b"", after: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        for key in sorted(self):
            if key.startswith(prefix) and (after is None or key > after):
                yield key, self[key]

    def __delitem__(self, key: bytes) -> None:
        self.pop(key, None)

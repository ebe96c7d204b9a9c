"""A scan that changes nothing: what was listed, held against what is known.

What a library makes of a scan is for its agent to say, from all evidence; this compares paths, and takes what is gone
here and new there with the same size, time and inode for moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.library import ItemObserved, Locator, Observation, PathSkipped
from streams.effects.scan.ports import KnownAll, KnownFile

Trace = tuple[int | None, int | None, int | None]
"""Size, mtime and inode: what a file takes with it when it is moved."""


@dataclass(slots=True)
class Difference:
    """What a scan would change. Paths as bytes; ``changed`` is empty for servers, whose items are all told anew."""

    new: list[bytes] = field(default_factory=list)
    changed: list[bytes] = field(default_factory=list)
    moved: list[tuple[bytes, bytes]] = field(default_factory=list)
    gone: list[bytes] = field(default_factory=list)
    failed: list[bytes] = field(default_factory=list)
    unsettled: list[bytes] = field(default_factory=list)
    skipped: list[tuple[bytes, str]] = field(default_factory=list)
    same: int = 0

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.moved or self.gone)


class Comparison:
    """Known and Sink of one dry scan; then ``difference``. What is known of a folder is kept until it was seen."""

    def __init__(self, source_id: str, known: KnownAll) -> None:
        self._source_id = source_id
        self._known = known
        self._looked: dict[bytes, dict[bytes, KnownFile]] = {}
        self._apart: dict[bytes, Locator] = {}
        self._new: dict[bytes, Locator] = {}
        self._hidden: list[tuple[bytes, bool]] = []
        self._found = Difference()

    def folder(self, source_id: str, folder: bytes) -> Mapping[bytes, KnownFile]:
        found = self._known.folder(source_id, folder)
        self._looked[folder] = dict(found)
        return found

    def send(self, event: Observation) -> None:
        match event:
            case ItemObserved():
                self._seen(event)
            case PathSkipped():
                self._found.skipped.append((event.path, event.reason))
                self._hidden.append((event.path, event.folder))
            case _:
                return

    def flush(self) -> None:
        """Nothing goes anywhere."""

    def difference(self) -> Difference:
        """Once, when the scan is over."""
        gone: dict[bytes, KnownFile] = {}
        for files in self._looked.values():
            gone |= files
        for folder in self._known.folders(self._source_id):
            if folder not in self._looked:
                for path, file in self._known.folder(self._source_id, folder).items():
                    if self._apart.pop(path, None) is None:
                        gone[path] = file
                    else:
                        self._found.same += 1
        self._new |= self._apart
        gone = {path: file for path, file in gone.items() if not self._is_hidden(path)}
        self._found.moved = _moves(gone, self._new)
        moved_from, moved_to = {one for one, _ in self._found.moved}, {to for _, to in self._found.moved}
        self._found.new = sorted(self._new.keys() - moved_to)
        self._found.gone = sorted(gone.keys() - moved_from)
        return self._found

    def _seen(self, event: ItemObserved) -> None:
        path = event.locator.path if event.locator is not None else (event.upstream_id or "").encode()
        locator = event.locator or Locator(path, None, None, None, None)
        if event.failed is not None:
            self._found.failed.append(path)
        if not event.settled:
            self._found.unsettled.append(path)
        folder = path.rpartition(b"/")[0]
        if folder not in self._looked:
            self._apart[path] = locator
            return
        if self._looked[folder].pop(path, None) is None:
            self._new[path] = locator
        elif event.details is not None or event.failed is not None or not event.settled:
            self._found.changed.append(path)
        else:
            self._found.same += 1

    def _is_hidden(self, path: bytes) -> bool:
        return any(path == hidden or (folder and path.startswith(hidden + b"/")) for hidden, folder in self._hidden)


def _moves(gone: Mapping[bytes, KnownFile], new: Mapping[bytes, Locator]) -> list[tuple[bytes, bytes]]:
    """(from, to), one to one, of what left and came with one trace."""
    left = _by_trace((path, (file.size, file.mtime_ns, file.inode)) for path, file in gone.items())
    came = _by_trace((path, (file.size, file.mtime_ns, file.inode)) for path, file in new.items())
    return sorted(
        (paths[0], came[trace][0])
        for trace, paths in left.items()
        if trace in came and len(paths) == len(came[trace]) == 1 and None not in trace
    )


def _by_trace(found: Iterable[tuple[bytes, Trace]]) -> dict[Trace, list[bytes]]:
    traces: dict[Trace, list[bytes]] = {}
    for path, trace in found:
        traces.setdefault(trace, []).append(path)
    return traces

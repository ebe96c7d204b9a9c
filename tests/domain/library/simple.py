"""A library to try rules on: its rows in a dict, a read model made of what is told, and trees that are scanned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from schemas.library import (
    Command,
    FinalizeContinued,
    ItemDetails,
    ItemObserved,
    ItemRemovalObserved,
    Locator,
    Observation,
    PathSkipped,
    ProviderId,
    ScanListed,
    ScanStarted,
)
from streams.domain.library.outputs import (
    Aliased,
    At,
    Continued,
    Hold,
    ItemState,
    Merged,
    Output,
    ScanState,
)
from streams.domain.library.rows import Row
from streams.domain.library.rules import apply

SOURCE = "home"
SECOND_MS = 1_000


class DictShelf:
    """Rows in memory."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}

    def get(self, key: bytes) -> Row | None:
        return self.rows.get(key)

    def put(self, key: bytes, row: Row) -> None:
        self.rows[key] = row

    def delete(self, key: bytes) -> None:
        self.rows.pop(key, None)

    def scan(self, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, Row]]:
        return iter(sorted((key, row) for key, row in self.rows.items() if key.startswith(prefix) and key > after))


@dataclass(frozen=True)
class File:
    """One name in a tree. Equal ``inode``: one file."""

    inode: int
    content: str
    mtime: int = 1
    size: int = 1_000
    title: str | None = None
    provider: str | None = None
    number: int | None = None
    unreadable: bool = False
    """Its content cannot be read."""
    growing: bool = False


Tree = Mapping[bytes, File]
Skips = Iterable[tuple[bytes, bool, str]]
"""Path, whether it is a folder with all below, reason."""


def located(path: bytes, file: File) -> Locator:
    return Locator(path, file.size, file.mtime * 10**9, 1, file.inode)


def details_of(path: bytes, file: File) -> ItemDetails:
    return ItemDetails(
        version=file.mtime * 1_000,
        content_hash=file.content,
        media_kind="music",
        item_kind="track",
        title=file.title,
        duration_ms=1_000,
        year=None,
        number=file.number,
        part=None,
        artists=(),
        provider_ids=() if file.provider is None else (ProviderId("mbid", file.provider),),
        collections=(),
    )


def below(path: bytes, folder: bytes) -> bool:
    return not folder or path == folder or path.startswith(folder + b"/")


@dataclass
class Library:
    """``source`` is scanned and observed; ``told`` is all that was told, ``items`` the read model of it."""

    shelf: DictShelf = field(default_factory=DictShelf)
    offset: int = 100
    told: list[Output] = field(default_factory=list)
    items: dict[str, ItemState] = field(default_factory=dict)
    merged: dict[str, str] = field(default_factory=dict)
    scans: dict[int, ScanState] = field(default_factory=dict)
    generation: int = 0
    minute: int = 0

    # Feeding.

    def feed(self, event: Observation | Command) -> list[Output]:
        """One record, and what the agent says to itself because of it."""
        waiting: list[Observation | Command] = [event]
        out: list[Output] = []
        while waiting:
            out += self.feed_one(waiting.pop(0), waiting)
        return out

    def feed_one(self, event: Observation | Command, waiting: list[Observation | Command]) -> list[Output]:
        """One record; what is to be appended to the log because of it goes to ``waiting``."""
        self.offset += 1
        at = At("topic-id", 3, self.offset, self.minute * 60_000 + self.offset)
        outputs = apply(self.shelf, event, at)
        for output in outputs:
            self._tell(output)
            if isinstance(output, Continued):
                waiting.append(
                    FinalizeContinued(
                        event_id="e",
                        correlation_id="c",
                        source_id=SOURCE,
                        received_at=self.offset,
                        generation=output.generation,
                        step=output.step,
                        cursor=output.cursor,
                    )
                )
        return outputs

    def _tell(self, output: Output) -> None:
        self.told.append(output)
        match output:
            case ItemState():
                self.items[output.media_id] = output
            case Merged():
                self.items.pop(output.media_id, None)
                self.merged[output.media_id] = output.survivor
            case ScanState():
                self.scans[output.generation] = output
            case Aliased() | Hold() | Continued():
                pass

    # What a scanner says.

    def known(self) -> dict[bytes, Locator]:
        """The files a scanner takes for known, as the read model shows them."""
        return {
            locator.path: locator
            for item in self.items.values()
            if item.status in ("present", "provisional", "missing")
            for locator in item.locators
        }

    def records(
        self,
        tree: Tree,
        *,
        generation: int | None = None,
        skips: Skips = (),
        full: bool = False,
        complete: bool = True,
        folds: bool = False,
        order: Iterable[bytes] | None = None,
    ) -> list[Observation]:
        """The records of one scan of ``tree``."""
        if generation is None:
            self.generation += 10
            generation = self.generation
        skipped = list(skips)
        known = self.known()
        records: list[Observation] = [started(generation, folds=folds)]
        number = 0
        for path in order if order is not None else sorted(tree):
            if any(below(path, skip) if folder else path == skip for skip, folder, _ in skipped):
                continue
            records.append(observed(path, tree[path], known.get(path), generation, number, full=full))
            number += 1
        for path, folder, reason in skipped:
            records.append(
                PathSkipped(
                    event_id="e",
                    correlation_id="c",
                    source_id=SOURCE,
                    received_at=0,
                    generation=generation,
                    ordinal=number,
                    path=path,
                    folder=folder,
                    reason=reason,
                )
            )
            number += 1
        records.append(listed(generation, number, complete=complete))
        return records

    def scan(
        self,
        tree: Tree,
        *,
        skips: Skips = (),
        full: bool = False,
        complete: bool = True,
        folds: bool = False,
        order: Iterable[bytes] | None = None,
    ) -> ScanState:
        """One scan without trouble; what became of it."""
        records = self.records(tree, skips=skips, full=full, complete=complete, folds=folds, order=order)
        for record in records:
            self.feed(timed(record, self.offset))
        return self.scans[self.generation]

    # What it came to.

    def at(self, path: bytes) -> str:
        """The one media that is there at ``path``."""
        (media_id,) = [
            item.media_id
            for item in self.items.values()
            if item.status in ("present", "provisional") and path in {locator.path for locator in item.locators}
        ]
        return media_id

    def status(self, media_id: str) -> str:
        return self.items[media_id].status

    def paths(self, media_id: str) -> set[bytes]:
        return {locator.path for locator in self.items[media_id].locators}

    def live(self) -> dict[str, set[bytes]]:
        """Every live item, and where it lies."""
        return {
            item.media_id: self.paths(item.media_id)
            for item in self.items.values()
            if item.status in ("present", "provisional")
        }

    def changes(self, since: int = 0) -> list[tuple[str, tuple[str, ...]]]:
        """What was told of items, from the ``since``-th output on."""
        return [(told.media_id, told.changes) for told in self.told[since:] if isinstance(told, ItemState)]

    def hook(self, upstream_id: str, **changed: object) -> list[Output]:
        """A server's news of an item."""
        event = ItemObserved(
            event_id="h",
            correlation_id="c",
            source_id=SOURCE,
            received_at=self.offset * SECOND_MS,
            how="hook",
            upstream_id=upstream_id,
        )
        return self.feed(replace(event, **changed))  # type: ignore[arg-type]

    def removal(self, upstream_id: str, received_at: int | None = None) -> list[Output]:
        return self.feed(
            ItemRemovalObserved(
                event_id="r",
                correlation_id="c",
                source_id=SOURCE,
                received_at=self.offset * SECOND_MS if received_at is None else received_at,
                upstream_id=upstream_id,
                how="hook",
            )
        )

    def serve(
        self,
        listing: Mapping[str, ItemDetails | None],
        paths: Mapping[str, bytes] | None = None,
        *,
        complete: bool = True,
    ) -> ScanState:
        """One scan of a server that lists these ids."""
        for record in self.served(listing, paths, complete=complete):
            self.feed(timed(record, self.offset))
        return self.scans[self.generation]

    def served(
        self,
        listing: Mapping[str, ItemDetails | None],
        paths: Mapping[str, bytes] | None = None,
        *,
        complete: bool = True,
    ) -> list[Observation]:
        self.generation += 10
        records: list[Observation] = [started(self.generation)]
        for number, (upstream_id, details) in enumerate(listing.items()):
            path = None if paths is None else paths.get(upstream_id)
            records.append(
                ItemObserved(
                    event_id="e",
                    correlation_id="c",
                    source_id=SOURCE,
                    received_at=0,
                    generation=self.generation,
                    ordinal=number,
                    how="scan",
                    upstream_id=upstream_id,
                    locator=None if path is None else Locator(path, None, None, None, None),
                    details=details,
                )
            )
        records.append(listed(self.generation, len(listing), complete=complete))
        return records


def timed(record: Observation, offset: int) -> Observation:
    """As received now."""
    return replace(record, received_at=offset * SECOND_MS)


def started(generation: int, *, folds: bool = False) -> ScanStarted:
    return ScanStarted(
        event_id="e",
        correlation_id="c",
        source_id=SOURCE,
        received_at=0,
        generation=generation,
        requested_by="operator",
        case_folds=folds,
    )


def listed(generation: int, observations: int, *, complete: bool = True) -> ScanListed:
    return ScanListed(
        event_id="e",
        correlation_id="c",
        source_id=SOURCE,
        received_at=0,
        generation=generation,
        complete=complete,
        observations=observations,
    )


def observed(
    path: bytes, file: File, known: Locator | None, generation: int, ordinal: int, *, full: bool = False
) -> ItemObserved:
    """A file, as a scanner tells it: what is in it only when it is not known, or differs."""
    locator = located(path, file)
    event = ItemObserved(
        event_id="e",
        correlation_id="c",
        source_id=SOURCE,
        received_at=0,
        generation=generation,
        ordinal=ordinal,
        how="scan",
        locator=locator,
    )
    if file.growing:
        return replace(event, settled=False)
    if locator == known and not full:
        return event
    if file.unreadable:
        return replace(event, failed="unreadable", locator=Locator(path, None, None, 1, file.inode))
    return replace(event, details=details_of(path, file))


def facts(name: str, *, version: int | None = None, title: str | None = None) -> ItemDetails:
    """What a server says of an item: ``name`` stands for all its facts."""
    return replace(details_of(b"", File(0, f"facts:{name}")), version=version, title=title or name)


def tree_of(count: int, folder: bytes = b"music", first: int = 0) -> dict[bytes, File]:
    """``count`` files of their own content."""
    return {folder + b"/%03d.flac" % n: File(1_000 + n, f"h{n}") for n in range(first, first + count)}

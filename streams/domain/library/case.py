"""One record at work: the rows of its source at hand, what it counts, what it has to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from streams.domain.library import keys
from streams.domain.library.outputs import At, Output, ScanState
from streams.domain.library.rows import (
    NO_SOURCE,
    NO_TALLY,
    Alias,
    Item,
    Mark,
    Named,
    Pending,
    Row,
    Scan,
    Sight,
    Skip,
    Source,
    Tally,
)
from streams.domain.library.shelf import Shelf
from streams.domain.library.words import ScanStatus


class Case:
    """Reads go to the shelf, writes go there at once, except the two rows that every record changes: ``close``."""

    __slots__ = (
        "_kept_source",
        "_kept_tally",
        "at",
        "outputs",
        "prefix",
        "received_at",
        "shelf",
        "source",
        "source_id",
        "tally",
    )

    def __init__(self, shelf: Shelf, source_id: str, received_at: int, at: At) -> None:
        self.shelf = shelf
        self.source_id = source_id
        self.received_at = received_at
        self.at = at
        self.outputs: list[Output] = []
        self.prefix = prefix = keys.prefix(source_id)
        source, tally = shelf.get(prefix + keys.SOURCE), shelf.get(prefix + keys.TALLY)
        assert source is None or type(source) is Source
        assert tally is None or type(tally) is Tally
        self.source: Source = source or NO_SOURCE
        self.tally: Tally = tally or NO_TALLY
        self._kept_source, self._kept_tally = self.source, self.tally

    def close(self) -> list[Output]:
        """Write what was not written yet; what the record has to say."""
        if self.source is not self._kept_source:
            self.shelf.put(self.prefix + keys.SOURCE, self.source)
        if self.tally is not self._kept_tally:
            self.shelf.put(self.prefix + keys.TALLY, self.tally)
        return self.outputs

    # Rows by kind.

    def item(self, media_id: str) -> Item | None:
        row = self.shelf.get(self.prefix + keys.item(media_id))
        assert row is None or type(row) is Item
        return row

    def sight(self, place: bytes) -> Sight | None:
        row = self.shelf.get(self.prefix + place)
        assert row is None or type(row) is Sight
        return row

    def named(self, evidence: bytes) -> tuple[str, ...]:
        """The media that an evidence speaks of."""
        row = self.shelf.get(self.prefix + evidence)
        assert row is None or type(row) is Named
        return () if row is None else row.media

    def alias(self, media_id: str) -> Alias | None:
        row = self.shelf.get(self.prefix + keys.alias(media_id))
        assert row is None or type(row) is Alias
        return row

    def pending(self, place: bytes) -> Pending | None:
        """What waits for a decision there in the scan that runs; older ones count for nothing."""
        row = self.shelf.get(self.prefix + keys.PENDING + place)
        assert row is None or type(row) is Pending
        return row if row is not None and self.scan is not None and row.seen >= self.scan.started else None

    def skip(self, path: bytes) -> Skip | None:
        """Whether the newest scan did not look there."""
        row = self.shelf.get(self.prefix + keys.SKIP + path)
        assert row is None or type(row) is Skip
        return row if row is not None and self.scan is not None and row.seen >= self.scan.started else None

    def mark(self, key: bytes) -> Mark | None:
        row = self.shelf.get(self.prefix + key)
        assert row is None or type(row) is Mark
        return row

    def put(self, key: bytes, row: Row) -> None:
        self.shelf.put(self.prefix + key, row)

    def delete(self, key: bytes) -> None:
        self.shelf.delete(self.prefix + key)

    def rows(self, kind: bytes, after: bytes, most: int) -> list[tuple[bytes, Row]]:
        """Up to ``most`` rows of a kind, keys without the source, in key order from behind ``after``."""
        cut = len(self.prefix)
        found: Iterator[tuple[bytes, Row]] = self.shelf.scan(self.prefix + kind, self.prefix + after)
        return [(key[cut:], row) for key, row in islice(found, most)]

    # The scan.

    @property
    def scan(self) -> Scan | None:
        """The newest scan, whatever became of it."""
        return self.source.scan

    @property
    def listing(self) -> bool:
        scan = self.source.scan
        return scan is not None and scan.status == ScanStatus.RUNNING

    def seen_now(self, sight: Sight) -> bool:
        """Whether that sighting is newer than the start of the scan."""
        scan = self.source.scan
        return scan is not None and sight.seen >= scan.started

    def count(
        self, *, live: int = 0, kept: int = 0, seen: int = 0, added: int = 0, changed: int = 0, moved: int = 0
    ) -> None:
        """Add up. Only ``live`` counts while no scan is at work."""
        tally = self.tally
        scan = self.source.scan
        if scan is None or not ScanStatus(scan.status).open:
            if live:
                self.tally = replace(tally, live=tally.live + live)
            return
        self.tally = replace(
            tally,
            live=tally.live + live,
            kept=tally.kept + kept,
            seen=tally.seen + seen,
            added=tally.added + added,
            changed=tally.changed + changed,
            moved=tally.moved + moved,
        )

    def become(self, status: ScanStatus, reason: str | None = None) -> None:
        """Give the scan another status and tell it."""
        scan = self.source.scan
        assert scan is not None
        scan = replace(scan, status=status.value, reason=reason)
        self.source = replace(self.source, scan=scan)
        tally = self.tally
        self.outputs.append(
            ScanState(
                generation=scan.generation,
                requested_by=scan.requested_by,
                status=scan.status,
                reason=reason,
                started_at=scan.started_at,
                observations=tally.received,
                seen=tally.seen,
                added=tally.added,
                changed=tally.changed,
                moved=tally.moved,
                missing=tally.missing,
                present_before=scan.present_before,
                unreadable=tally.unreadable,
                skipped=scan.skipped,
            )
        )

"""An item while a record changes it: rows thawed, then written back with all that follows from them.

What follows: its places and whether they are plain, the evidence that leads to it, the number of live items, and
the event that tells what it is now.
"""

from __future__ import annotations

from dataclasses import replace

from schemas.library import ItemDetails, Locator
from streams.domain.library import evidence, keys
from streams.domain.library.case import Case
from streams.domain.library.limits import LOCATORS_SHOWN_MAX, SHARED_MAX
from streams.domain.library.outputs import ItemState
from streams.domain.library.rows import Alias, Item, Named, Sight
from streams.domain.library.words import Change, Status
from streams.domain.library.works import work_id


class Draft:
    """Change the fields, name the changes, ``save``. Two drafts of one record that pass a place on: the one that
    loses it is saved first."""

    __slots__ = (
        "_before", "_case", "_sights_before", "candidates", "changes", "details", "first_seen_at", "generation",
        "listed", "media_id", "readable", "sights", "status",
    )  # fmt: skip

    def __init__(self, case: Case, media_id: str, before: Item | None) -> None:
        self._case = case
        self._before = before
        self.media_id = media_id
        self.changes: list[Change] = []
        self.sights: dict[bytes, Sight] = {}
        if before is None:
            self.status = Status.PRESENT
            self.readable = True
            self.listed = False
            self.generation: int | None = None
            self.details: ItemDetails | None = None
            self.candidates: tuple[str, ...] = ()
            self.first_seen_at = case.at.logged_at
        else:
            self.status = Status(before.status)
            self.readable = before.readable
            self.listed = before.listed
            self.generation = before.generation
            self.details = before.details
            self.candidates = before.candidates
            self.first_seen_at = before.first_seen_at
            for place in before.places:
                sight = case.sight(place)
                assert sight is not None, "a place without a sight"
                self.sights[place] = sight
        self._sights_before = dict(self.sights)

    @property
    def was(self) -> Item | None:
        """As it was before this record."""
        return self._before

    @property
    def seen_now(self) -> bool:
        """Whether the scan, or anybody since it began, has seen it."""
        return any(map(self._case.seen_now, self.sights.values()))

    @property
    def last_seen(self) -> int | None:
        """The newest scan that has seen it, as far as no newer one is at work."""
        finalized = self._case.source.finalized
        if self.status.live and self.listed and self.readable and finalized is not None:
            return max(finalized, self.generation or 0)
        return self.generation

    @property
    def undecided(self) -> bool:
        """Whether it may turn out to be another media: nobody but hooks knows it, or no scan could tell."""
        return self.status is Status.PROVISIONAL or not self.listed

    def note(self, change: Change) -> None:
        if change not in self.changes:
            self.changes.append(change)

    def back(self) -> None:
        """It was seen: it is there, and can be read. What no scan has listed is provisional."""
        if not self.status.live:
            self.status = Status.PRESENT if self.listed else Status.PROVISIONAL
            self.note(Change.BACK)
        if not self.readable:
            self.readable = True
            self.note(Change.READABLE)

    def settle(self) -> None:
        """It was listed, and belongs to no other media."""
        if self.status is Status.PROVISIONAL:
            self.status = Status.PRESENT
            self.note(Change.COPY if self.candidates else Change.LOCATORS)
        self.candidates = ()

    def save(self) -> None:
        case = self._case
        plain = self.status is Status.PRESENT and self.readable
        for place in self._sights_before.keys() - self.sights.keys():
            case.delete(place)
        for place, found in self.sights.items():
            sight = found
            if sight.plain != plain or sight.media_id != self.media_id:
                sight = self.sights[place] = replace(sight, plain=plain, media_id=self.media_id)
            if self._sights_before.get(place) != sight:
                case.put(place, sight)
        item = Item(
            media_id=self.media_id,
            status=self.status.value,
            readable=self.readable,
            listed=self.listed,
            first_seen_at=self.first_seen_at,
            generation=self.generation,
            places=tuple(self.sights),
            details=self.details,
            work_id=work_id(self.details),
            candidates=self.candidates,
        )
        before = self._before
        was = evidence.of_item(None if before is None else before.details, self._sights_before)
        self._index(was, evidence.of_item(self.details, self.sights))
        was_live = before is not None and Status(before.status).live
        if was_live != self.status.live:
            case.count(live=1 if self.status.live else -1)
        if item != before:
            case.put(keys.item(self.media_id), item)
        if self.changes:
            case.outputs.append(self._state(item))

    def end(self, survivor: str) -> None:
        """It was one with another: nothing leads here any more, and its id is used up. Its places are deleted."""
        case = self._case
        for place in self._sights_before:
            case.delete(place)
        before = self._before
        assert before is not None
        self._index(evidence.of_item(before.details, self._sights_before), set())
        if Status(before.status).live:
            case.count(live=-1)
        case.delete(keys.item(self.media_id))
        case.put(keys.alias(self.media_id), Alias(survivor))

    def _index(self, was: set[bytes], now: set[bytes]) -> None:
        case = self._case
        for key in sorted(was - now):
            left = tuple(media for media in case.named(key) if media != self.media_id)
            if left:
                case.put(key, Named(left))
            else:
                case.delete(key)
        for key in sorted(now - was):
            media = case.named(key)
            if self.media_id not in media and len(media) < SHARED_MAX:
                case.put(key, Named((*media, self.media_id)))

    def _state(self, item: Item) -> ItemState:
        located = [(evidence.path_of(place, sight), sight) for place, sight in self.sights.items()]
        upstream = [found for found in map(keys.upstream_id, item.places) if found is not None]
        return ItemState(
            media_id=item.media_id,
            status=item.status,
            changes=tuple(change.value for change in self.changes),
            generation=item.generation,
            readable=item.readable,
            upstream_id=upstream[-1] if upstream else None,
            locators=tuple(
                Locator(path, sight.size, sight.mtime_ns, sight.device, sight.inode)
                for path, sight in located
                if path is not None
            )[:LOCATORS_SHOWN_MAX],
            details=item.details,
            work_id=item.work_id,
            first_seen_at=item.first_seen_at,
        )


def opened(case: Case, media_id: str) -> Draft | None:
    """The draft of an item that is known; None when it is not, or ended."""
    item = case.item(media_id)
    return None if item is None else Draft(case, media_id, item)

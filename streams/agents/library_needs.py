"""The rows that a batch of observations will ask for: the store answers faster for many at once.

Nothing depends on it: a row that is not named here is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schemas.library import ItemObserved
from streams.domain.identity import media_id
from streams.domain.library import evidence, keys
from streams.domain.library.locators import text
from streams.domain.library.places import place_of
from streams.domain.library.rows import Sight
from streams.domain.library.shelf import Shelf


def places(events: Iterable[object]) -> Iterator[bytes]:
    """Of nearly every record: the place it speaks of."""
    for event in events:
        if isinstance(event, ItemObserved) and _somewhere(event):
            yield keys.prefix(event.source_id) + place_of(event)


def behind(events: Iterable[object], shelf: Shelf) -> Iterator[bytes]:
    """Of records with details, once their places are in memory: the item that is there, or what may lead to one."""
    for event in events:
        if isinstance(event, ItemObserved) and event.details is not None and _somewhere(event):
            prefix, place = keys.prefix(event.source_id), place_of(event)
            sight = shelf.get(prefix + place)
            if type(sight) is Sight:
                yield prefix + keys.item(sight.media_id)
            else:
                yield from (prefix + key for key in _of_unknown(event, place))


def _of_unknown(event: ItemObserved, place: bytes) -> Iterator[bytes]:
    """Its evidence, and the id it gets when that leads to nothing."""
    sights, at = {}, event.locator
    if at is not None:
        path = None if event.upstream_id is None else at.path
        sights[place] = Sight("", 0, 0, 0, False, path, at.size, at.mtime_ns, at.device, at.inode)
    yield from evidence.of_item(event.details, sights)
    media = media_id(event.source_id, text(place[1:]) if event.upstream_id is None else event.upstream_id)
    yield keys.item(media)
    yield keys.alias(media)


def _somewhere(event: ItemObserved) -> bool:
    return event.upstream_id is not None or event.locator is not None

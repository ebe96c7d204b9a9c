"""A Jellyfin that is scanned and tells of itself by hooks, through the real door."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from streams.upstream import jellyfin
from tests.integration.library_servers.conftest import AnyShelf, Home
from tests.integration.library_servers.served import Served, Web
from tests.integration.library_servers.shelves import JellyfinShelf

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library_servers"), pytest.mark.long]
JELLYFIN = pytest.mark.parametrize("home", ["jellyfin"], indirect=True)


def tell(library: Served, what: str, ids: Iterable[str]) -> None:
    """As many hooks at once as the door takes."""

    def post(upstream_id: str) -> int:
        body = {"NotificationType": what, "ItemId": upstream_id, "ItemType": "Movie", "Name": "Film"}
        while (answer := client.post(library.hook, json=body)).status_code in (429, 503):
            time.sleep(0.05)
        return answer.status_code

    with httpx.Client(base_url=library.house.world.playhead.url, timeout=30) as client, ThreadPoolExecutor(8) as pool:
        assert {code // 100 for code in pool.map(post, ids)} == {2}


def status_of(library: Served, upstream_id: str) -> list[str]:
    """Of all items that have this id."""
    rows = library.house.query(
        "SELECT status FROM api.items WHERE source_id = %s AND upstream_id = %s", library.source_id, upstream_id
    )
    return [row[0] for row in rows]


@JELLYFIN
def test_an_item_that_a_hook_adds_is_provisional_until_a_scan_lists_it(home: Home) -> None:
    shelf, library = home.shelf, home.library
    shelf.add(30)
    added = shelf.marks()[60_030]
    tell(library, "ItemAdded", [added])
    library.house.wait(lambda: status_of(library, added) == ["provisional"], "it is provisional")
    library.scan()
    library.check()
    assert status_of(library, added) == ["present"]
    assert library.ids_by_mark()[60_030] == library.computed(added)
    # One that was added and is gone before a scan could list it is no item that stays.
    shelf.add(31)
    brief = shelf.marks()[60_031]
    tell(library, "ItemAdded", [brief])
    library.house.wait(lambda: status_of(library, brief) == ["provisional"], "it is provisional")
    shelf.delete(60_031)
    library.scan()
    library.check()


@JELLYFIN
def test_state_follows_a_rename_that_hooks_tell_in_either_order(home: Home) -> None:
    shelf, library = home.shelf, home.library
    before = library.ids_by_mark()
    for mark, order in ((60_002, ("added", "removed")), (60_005, ("removed", "added"))):
        old = shelf.marks()[mark]
        new = shelf.rename(mark)
        for word in order:
            if word == "added":
                tell(library, "ItemAdded", [new])
                library.house.wait(lambda new=new: status_of(library, new) == ["provisional"], "the new one is told")  # type: ignore[misc]
                library.listen(mark)  # before any scan has told whose it is
            else:
                tell(library, "ItemDeleted", [old])
                library.house.wait(lambda old=old: status_of(library, old) == ["missing"], "the old one is gone")  # type: ignore[misc]
        library.scan()
        library.check()
        assert library.ids_by_mark() == before
        library.listen(mark)
        library.check()
    assert len(library.items()) == len(before)


def test_five_hundred_removals_at_once_hold_the_source_and_nothing_that_is_there_is_missing(
    serve: Callable[[AnyShelf], tuple[Web, Served]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jellyfin, "LIBRARY_PAGE", 500)
    shelf = JellyfinShelf(600)
    _, library = serve(shelf)
    library.scan()
    library.check()
    library.listen(60_000, 60_001, 60_599)
    before = library.ids_by_mark()

    def held() -> bool:
        return library.house.query("SELECT held FROM api.sources WHERE source_id = %s", library.source_id) == [(True,)]

    tell(library, "ItemDeleted", list(shelf.marks().values())[:500])
    library.house.wait(held, "the source is held")
    library.house.wait(lambda: library.ids_by_mark() == before, "all of it is there")
    # What is really gone a scan tells.
    shelf.delete(60_000)
    library.scan()
    library.check()
    assert not held()
    assert library.statuses(before[60_000]) == ["missing"]
    assert len(library.ids_by_mark()) == 599

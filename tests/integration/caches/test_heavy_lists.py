"""Collections in the cache: page by page, right when only an item of them changes, read again under a lease."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from projections import outbox
from projections.api import caching_library
from projections.api.caching_library import PAGE, CachedLibraryModels, warm
from projections.api.library_models import LibraryPage, Row
from projections.models.library import LibraryProjection
from projections.models.library_rows import collection_id
from schemas.library import Change
from streams.effects.cache.heavy import heavy_lists
from streams.effects.kinds.cache import cache_kind
from streams.effects.tasks import Worker
from streams.runtime.blocking import BlockingDatabase
from streams.runtime.cache import Stamp
from streams.runtime.database import Database
from streams.runtime.leases import Tasks
from tests.integration.caches.kitchen import Kitchen
from tests.integration.projections.world import eventually
from tests.projections.changes import aliased, item, placed, scan

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("caches"), pytest.mark.long]
ITEMS = 230
ALBUM = collection_id("home", "album", "organ")
FOLDER = collection_id("home", "folder", "Bach")


def media(number: int) -> str:
    return f"{number:032x}"


class Counting(CachedLibraryModels):
    reads = 0

    async def _ask(self, query: str, **parameters: Any) -> list[Row]:
        Counting.reads += query == caching_library._COLLECTION
        return await super()._ask(query, **parameters)


class Shelf:
    def __init__(self, kitchen: Kitchen) -> None:
        self.kitchen = kitchen
        self.made: list[Change] = []
        with psycopg.connect(**kitchen.settings.postgres.conninfo("owner")) as connection:
            connection.execute("INSERT INTO core.sources VALUES ('home', 'files', 'Home')")
        self.change(*(item(media(number), number) for number in range(ITEMS)))

    def change(self, *events: Change) -> None:
        self.made += events
        records = placed(self.made)[-len(events) :]
        projection = LibraryProjection()
        with psycopg.connect(**self.kitchen.settings.postgres.conninfo("projector"), autocommit=True) as connection:
            projection.prepare(connection)
            with connection.transaction():
                outbox.write(connection, projection.fold(records, connection).invalidations)
        self.kitchen.relay_all()

    def wait_told(self, key: str) -> None:
        """Until the cache knows the newest invalidation of this key. A floor alone tells nothing: readers raise it to
        what they have shown."""
        newest = self.kitchen.invalidations_of(key)[-1]
        stamp = str(Stamp(newest.model_epoch, newest.log_epoch, newest.version))
        eventually(lambda: self.kitchen.floor(key) == stamp, "it was told")

    def forge(self, title: str) -> None:
        with psycopg.connect(**self.kitchen.settings.postgres.conninfo("owner")) as connection:
            connection.execute("UPDATE model.media_items SET title = %s", (title,))

    def ask(
        self, after: str | None = None, *, collection: str = ALBUM, source: str | None = "home", folders: bool = False
    ) -> tuple[Row, LibraryPage] | None:
        async def work() -> tuple[Row, LibraryPage] | None:
            cache = self.kitchen.cache()
            async with Database(self.kitchen.settings.postgres.conninfo("reader")) as database, cache:
                models = Counting(database, cache)
                return await models.collection(collection, source, folders=folders, after=after, limit=PAGE)

        return asyncio.run(work())

    def page(self, after: str | None = None) -> list[Row]:
        found = self.ask(after)
        assert found is not None
        return list(found[1].rows)

    def reads(self) -> int:
        """How often PostgreSQL was asked for a page since the last time."""
        found, Counting.reads = Counting.reads, 0
        return found


@pytest.fixture(scope="module")
def whole_shelf(whole_kitchen: Kitchen) -> Shelf:
    return Shelf(whole_kitchen)


@pytest.fixture
def shelf(kitchen: Kitchen, whole_shelf: Shelf) -> Iterator[Shelf]:
    with kitchen.keeping():
        whole_shelf.reads()
        yield whole_shelf


def test_a_page_is_kept_until_the_collection_or_an_item_of_it_changes(shelf: Shelf) -> None:
    first = shelf.page()
    assert (len(first), shelf.reads()) == (PAGE, 1)
    shelf.forge("behind its back")
    assert shelf.page() == first
    assert shelf.reads() == 0
    # Another name of an item moves no version of the collection.
    shelf.change(aliased("u-1", media(3), 900))
    shelf.wait_told(f"item:{media(3)}")
    assert {row["title"] for row in shelf.page()} == {"behind its back"}
    assert shelf.reads() == 1
    second = shelf.page(first[-2]["media_id"])
    shelf.change(item(media(5), 901, status="missing"))
    shelf.wait_told(f"collection:{ALBUM}")
    assert shelf.page()[5]["status"] == "missing"
    assert [row["media_id"] for row in shelf.page(first[-2]["media_id"])] == [row["media_id"] for row in second]


def test_a_kept_page_says_which_scan_saw_its_items_last(shelf: Shelf) -> None:
    shelf.page()
    shelf.change(scan(40, 950, status="finalized"))
    shelf.reads()
    seen = {row["last_seen_generation"] for row in shelf.page() if row["status"] == "present"}
    assert (seen, shelf.reads()) == ({40}, 0)


def test_what_is_kept_is_shown_to_those_who_may_see_it(shelf: Shelf) -> None:
    assert shelf.ask(collection=FOLDER, folders=True) is not None
    assert shelf.ask(collection=FOLDER) is None
    assert shelf.ask(source="flat") is None
    assert shelf.ask(source=None) is not None
    assert shelf.ask(collection="0" * 32) is None


def test_a_heavy_list_that_changes_is_read_again_before_anybody_asks(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching_library, "HEAVY_ITEMS", 100)
    settings, url = shelf.kitchen.settings, shelf.kitchen.server.url
    shelf.page()
    shelf.reads()
    monkeypatch.setattr(caching_library, "CachedLibraryModels", Counting)
    with (
        BlockingDatabase(settings.postgres.conninfo("worker")) as database,
        heavy_lists(settings, url) as heard,
    ):
        tasks = Tasks(database)
        worker = Worker(tasks, [cache_kind(lambda collection: warm(settings, url, collection))], _NoLetters())
        for number in (960, 961):
            shelf.change(item(media(7), number, status="missing" if number % 2 else "present"))
            # As the keeper does it: the cache is the first to know.
            shelf.wait_told(f"item:{media(7)}")
            shelf.wait_told(f"collection:{ALBUM}")
            heard(shelf.kitchen.invalidations_of(f"collection:{ALBUM}"))
        assert tasks.waits("cache", ALBUM).wanted
        assert tasks.depths()["cache"].waiting == 1, "what changes twice is read once"
        stop = threading.Event()
        working = threading.Thread(target=worker.run, args=(stop,), daemon=True)
        working.start()
        try:
            eventually(lambda: not tasks.waits("cache", ALBUM).wanted, "it was done")
        finally:
            stop.set()
            working.join(30)
        assert shelf.reads() == 3
        first = shelf.page()
        second = shelf.page(first[-2]["media_id"])
        third = shelf.page(second[-2]["media_id"])
        assert shelf.reads() == 0
        assert [len(page) for page in (first, second, third)] == [PAGE, PAGE, ITEMS - 2 * (PAGE - 1)]
        assert first[7]["status"] == "missing"


class _NoLetters:
    def write(self, task: object, error: Exception) -> None:
        raise AssertionError(f"a letter: {error}")

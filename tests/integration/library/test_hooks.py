"""What hooks of a media server say beside its scans: one by one they are believed, in masses they are not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import xxhash

from schemas.library import CollectionRef, ItemDetails, ItemObserved, Locator, Observation, ScanListed, ScanStarted
from streams.cli.admin import door_connection
from streams.runtime.tokens import create_source, create_token
from tests.integration.library.house import House

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library"), pytest.mark.long]

COUNT = 600


class Server:
    """A Jellyfin, as far as its lists and its hooks go."""

    def __init__(self, house: House, source_id: str) -> None:
        self.house = house
        self.source_id = source_id
        with door_connection(house.settings) as connection:
            create_source(connection, source_id, "jellyfin", source_id)
            self.hook = f"/hooks/jellyfin/{create_token(connection, source_id, ['report'], None, 'test')}"
        self.ids = [xxhash.xxh3_128_hexdigest(f"{source_id}{number}".encode()) for number in range(COUNT)]
        self._generation = 0

    def list(self, ids: Iterable[str]) -> int:
        """A scan that finds these; its generation."""
        self._generation += 1
        generation, now_ms, wanted = self._generation, int(time.time() * 1000), list(ids)
        words = {"correlation_id": "c", "source_id": self.source_id, "received_at": now_ms}
        events: list[Observation] = [
            ScanStarted(event_id=f"{generation}-s", generation=generation, requested_by="operator", **words),  # type: ignore[arg-type]
            *(
                ItemObserved(
                    event_id=f"{generation}-{ordinal}",
                    generation=generation,
                    ordinal=ordinal,
                    how="scan",
                    upstream_id=upstream_id,
                    locator=Locator(f"/media/{upstream_id}.mkv".encode(), None, None, None, None),
                    details=details(upstream_id),
                    **words,  # type: ignore[arg-type]
                )
                for ordinal, upstream_id in enumerate(wanted)
            ),
            ScanListed(
                event_id=f"{generation}-l",
                generation=generation,
                complete=True,
                observations=len(wanted),
                **words,  # type: ignore[arg-type]
            ),
        ]
        self.house.observe(*events, source_id=self.source_id)
        return generation

    def scan(self, ids: Iterable[str], status: str = "finalized") -> None:
        generation = self.list(ids)

        def ended() -> bool:
            rows = self.house.query(
                "SELECT status FROM api.scans WHERE source_id = %s AND generation = %s", self.source_id, generation
            )
            return rows == [(status,)]

        self.house.wait(ended, f"scan {generation} is {status}")

    def tell(self, what: str, ids: Iterable[str]) -> None:
        """As many hooks at once as the door takes."""

        def post(upstream_id: str) -> int:
            body = {"NotificationType": what, "ItemId": upstream_id, "ItemType": "Movie", "Name": "Kite"}
            while (answer := client.post(self.hook, json=body)).status_code in (429, 503):
                time.sleep(0.05)
            return answer.status_code

        with httpx.Client(base_url=self.house.world.playhead.url, timeout=30) as client, ThreadPoolExecutor(8) as pool:
            assert {code // 100 for code in pool.map(post, ids)} == {2}

    def statuses(self) -> dict[str, int]:
        return dict(
            self.house.query("SELECT status, count(*) FROM api.items WHERE source_id = %s GROUP BY 1", self.source_id)
        )

    def held(self) -> bool:
        [(held,)] = self.house.query("SELECT held FROM api.sources WHERE source_id = %s", self.source_id)
        return bool(held)


def details(upstream_id: str) -> ItemDetails:
    return ItemDetails(
        version=1,
        content_hash=None,
        media_kind="video",
        item_kind="movie",
        title=upstream_id,
        duration_ms=60_000,
        year=None,
        number=None,
        part=None,
        artists=(),
        provider_ids=(),
        collections=(CollectionRef("folder", "/media", "media"),),
    )


@pytest.fixture
def server(house: House, unique_name: Callable[[str], str]) -> Server:
    made = Server(house, unique_name("jelly").lower())
    made.scan(made.ids)
    assert made.statuses() == {"present": COUNT}
    return made


def test_five_hundred_removals_at_once_are_not_believed(server: Server) -> None:
    server.tell("ItemDeleted", server.ids[:500])
    server.house.wait(server.held, "the source is held")
    server.house.wait(lambda: server.statuses() == {"present": COUNT}, "all of it is there")
    # What is really gone a scan tells, and nothing else does.
    server.scan(server.ids[:-3])
    assert server.statuses() == {"present": COUNT - 3, "missing": 3}
    assert not server.held()


def test_a_few_removals_are_believed_and_an_item_that_is_told_again_is_the_same(server: Server) -> None:
    server.tell("ItemDeleted", server.ids[:3])
    server.house.wait(lambda: server.statuses() == {"present": COUNT - 3, "missing": 3}, "they are missing")
    server.tell("ItemAdded", server.ids[:3])
    server.house.wait(lambda: server.statuses() == {"present": COUNT}, "they are back")
    assert not server.held()


def test_removals_while_a_scan_lists_the_items_make_none_of_them_missing_in_masses(server: Server) -> None:
    with ThreadPoolExecutor(2) as pool:
        told = pool.submit(server.tell, "ItemDeleted", server.ids[:500])
        generations = [server.list(server.ids) for _ in range(3)]
        told.result()
    assert generations
    server.scan(server.ids)
    assert server.statuses() == {"present": COUNT}

"""The library's routes over real read models."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import psycopg
import pytest

from projections.api import LibraryModels, Names, library_router
from projections.base import Record
from projections.models.library import LibraryProjection
from projections.models.library_rows import collection_id
from schemas.library import Change, Locator, ReasonCount
from streams.domain.identity import media_id
from streams.runtime.clock import FakeClock
from streams.runtime.database import Database
from streams.runtime.settings import Settings
from streams.runtime.tokens import Authenticator, Principal, Scope, hash_of
from streams.runtime.web import Guard, build_app
from tests.ingest.fakes import FakeAliases, FakePeople, FakeTokens, token
from tests.projections.changes import (
    ALBUM,
    NOW_MS,
    aliased,
    details,
    held,
    item,
    merged,
    partition_for,
    placed,
    scan,
)

pytestmark = pytest.mark.services

TOKENS = {
    "home": Principal("t-home", "home", frozenset({Scope.READ})),
    "flat": Principal("t-flat", "flat", frozenset({Scope.READ})),
    "operator": Principal("t-op", None, frozenset({Scope.OPERATE})),
    "reader": Principal("t-read", None, frozenset({Scope.READ})),
    "reporter": Principal("t-rep", "home", frozenset({Scope.REPORT})),
}
LETTER = dict(zip(TOKENS, "abcde", strict=True))
A, B, C = (media_id("home", f"u-{letter}") for letter in "abc")
FOLDER = collection_id("home", "folder", "Bach")


class Library:
    """A read API, and a projector's hand in the database behind it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: list[Change] = []
        tokens = FakeTokens(rows={hash_of(token(LETTER[name])): who for name, who in TOKENS.items()})
        self._names = Names(FakePeople({"home", "flat"}), FakeAliases())
        self._guard = Guard(Authenticator(tokens, FakeClock()))
        with psycopg.connect(**settings.postgres.conninfo("owner")) as connection:
            connection.execute("INSERT INTO core.sources VALUES ('home', 'files', 'Home'), ('flat', 'plex', 'Flat')")

    def change(self, *events: Change) -> Sequence[Record[Change]]:
        """Put more changes into the read models, each at its place in the log."""
        self._made += events
        records = placed(self._made)[-len(events) :]
        projection = LibraryProjection()
        with psycopg.connect(**self._settings.postgres.conninfo("projector"), autocommit=True) as connection:
            projection.prepare(connection)
            with connection.transaction():
                projection.fold(records, connection)
        return records

    def get(self, path: str, who: str = "home", headers: dict[str, str] | None = None) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with Database(self._settings.postgres.conninfo("reader")) as database:
                app = build_app("test")
                app.include_router(library_router(LibraryModels(database), self._names, self._guard))
                transport = httpx.ASGITransport(app)
                async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                    sent = {"Authorization": f"Bearer {token(LETTER[who])}", **(headers or {})}
                    return await client.get(path, headers=sent)

        return asyncio.run(ask())

    def all(self, path: str, field: str, who: str = "home") -> list[Any]:
        """One field of all entries of all pages, two at a time."""
        found: list[Any] = []
        cursor = ""
        joint = "&" if "?" in path else "?"
        while True:
            document = self.get(f"{path}{joint}limit=2{cursor}", who).json()
            found += [entry[field] for entry in document["items"]]
            if document["next"] is None:
                return found
            cursor = f"&cursor={document['next']}"


@pytest.fixture
def library(model_settings: Settings) -> Library:
    return Library(model_settings)


def test_sources_are_shown_with_what_is_counted_their_newest_scan_and_whether_removals_are_held(
    library: Library,
) -> None:
    library.change(item(A, 0), item(B, 1, status="missing"), scan(3, 2, status="finalized"), scan(9, 3), held(True, 4))
    answer = library.get("/v1/sources", "operator")
    flat, home = answer.json()["items"]
    assert (flat["source"], flat["version"], flat["last_scan"], flat["items"]["present"]) == ("flat", None, None, 0)
    assert (home["source"], home["kind"], home["name"]) == ("home", "files", "Home")
    assert home["items"] == {"present": 1, "provisional": 0, "missing": 1, "archived": 0, "deleted": 0}
    assert (home["last_scan"]["id"], home["finalized_generation"]) == ("home:9", 3)
    assert home["removals"] == {"held": True, "reason": "mass_removal", "changed_at": NOW_MS + 4, "removals": 4}
    assert home["version"] == {"model_epoch": 1, "log_epoch": 1, "partition": partition_for("home"), "offset": 4}
    assert [one["source"] for one in library.get("/v1/sources", "flat").json()["items"]] == ["flat"]


def test_a_scan_is_found_by_source_and_generation(library: Library) -> None:
    library.change(
        scan(3, 0), scan(3, 1, status="held", missing=9), scan(3, 2, status="finalized", seen=5, missing=9,
        skipped=(ReasonCount("hidden", 2),)), scan(8, 3),
    )  # fmt: skip
    answer = library.get("/v1/scans/home:3")
    document = answer.json()
    assert (answer.status_code, answer.headers["ETag"]) == (200, '"1.1.2"')
    assert (document["status"], document["seen"], document["missing"], document["skipped"]) == (
        "finalized", 5, 9, {"hidden": 2},
    )  # fmt: skip
    assert (document["held_at"], document["ended_at"], document["duration_ms"]) == (NOW_MS + 1, NOW_MS + 2, 2)
    assert library.get("/v1/scans/home:8").json()["duration_ms"] is None
    assert library.get("/v1/scans/home:3", headers={"If-None-Match": '"1.1.2"'}).status_code == 304
    assert library.all("/v1/sources/home/scans", "generation") == [8, 3]
    for nobody in ("home:4", "home", "home:x", "nobody:3", "home:" + "9" * 30):
        assert library.get(f"/v1/scans/{nobody}", "operator").status_code == 404, nobody


def test_items_are_paged_and_filtered(library: Library) -> None:
    ids = sorted(f"{number:032x}" for number in range(5))
    library.change(*(item(one, number) for number, one in enumerate(ids)))
    film = details(title="Größe", artists=("Ana", "Bo%"), item_kind="movie", media_kind="video")
    library.change(item(B, 5, details=film), item(C, 6, status="missing", details=None))
    path = "/v1/sources/home/items"
    assert library.all(path, "media") == sorted([*ids, B, C])
    assert library.all(f"{path}?status=present", "media") == sorted([*ids, B])
    assert library.all(f"{path}?status=missing&status=archived", "media") == [C]
    assert library.all(f"{path}?kind=movie", "media") == library.all(f"{path}?kind=video", "media") == [B]
    for text in ("gRÖß", "ana", "o%25"):
        assert library.all(f"{path}?text={text}", "media") == [B]
    assert library.get(f"{path}?text=%25").json()["items"][0]["media"] == B
    shown = library.get(f"{path}?status=missing").json()["items"][0]
    assert (shown["title"], shown["artists"], shown["provider_ids"], shown["last_seen_scan_id"]) == (
        None, [], [], "home:7",
    )  # fmt: skip


def test_a_media_is_found_by_each_of_its_ids_with_paths_for_operators_only(library: Library) -> None:
    strange = (Locator(b"Bach/T.flac", 41, 5, 1, 2), Locator(b"\xff/x", None, None, None, None))
    library.change(item(A, 0, locators=strange, upstream_id="u-a"), aliased("u-z", A, 1))
    answer = library.get(f"/v1/media/{A}", "operator")
    document = answer.json()
    assert document["locators"] == [
        {"path": "Bach/T.flac", "path_hex": b"Bach/T.flac".hex(), "size": 41, "mtime_ns": 5},
        {"path": "\\xff/x", "path_hex": "ff2f78", "size": None, "mtime_ns": None},
    ]
    assert (document["aliases"], document["merged_from"], document["version"]["offset"]) == (["u-z"], [], 1)
    assert document["provider_ids"] == [{"provider": "mbid", "id": "b1a9"}]
    assert [one["kind"] for one in document["collections"]] == ["album", "artist", "folder", "folder"]
    read = library.get("/v1/media/u-a")
    assert (read.json()["media"], read.json()["locators"]) == (A, None)
    assert [one["kind"] for one in read.json()["collections"]] == ["album", "artist"]
    assert "Bach/" not in read.text
    assert library.get(f"/v1/media/{A}", "reader").json()["locators"] is None
    assert read.headers["ETag"] != answer.headers["ETag"]


def test_a_media_that_ended_is_answered_with_the_one_that_stays(library: Library) -> None:
    library.change(item(A, 0), item(B, 1), merged(A, B, 2))
    answer = library.get(f"/v1/media/{A}")
    assert (answer.status_code, answer.json()["media"], answer.json()["merged_from"]) == (200, B, [A])
    library.change(item(C, 3), merged(B, C, 4))
    assert library.get("/v1/media/u-a").json()["media"] == C
    assert library.get(f"/v1/media/{B}").json()["merged_from"] == sorted([A, B])
    assert library.all("/v1/sources/home/items", "media") == [C]


def test_collections_show_what_is_in_them_and_folders_to_operators_only(library: Library) -> None:
    library.change(item(A, 0), item(B, 1, status="missing"), item(C, 2, locators=()))
    assert library.all("/v1/sources/home/collections", "name") == ["J. S. Bach", "Organ Works"]
    assert library.all("/v1/sources/home/collections?kind=album", "collection") == [ALBUM]
    assert library.all("/v1/sources/home/collections", "kind", "operator") == ["folder", "artist", "album"]
    document = library.get(f"/v1/collections/{ALBUM}").json()
    assert (document["items_by_status"]["present"], document["items_by_status"]["missing"]) == (2, 1)
    assert [one["media"] for one in document["items"]] == sorted([A, B, C])
    assert library.all(f"/v1/collections/{ALBUM}", "media") == sorted([A, B, C])
    assert library.get(f"/v1/collections/{FOLDER}", "operator").json()["key"] == "Bach"
    assert library.get(f"/v1/collections/{FOLDER}").status_code == 404
    library.change(item(A, 3, status="deleted"), item(C, 4, status="missing"))
    assert library.all("/v1/sources/home/collections", "name") == []
    assert library.all("/v1/sources/home/collections?gone=true", "name") == ["J. S. Bach", "Organ Works"]


def test_a_name_that_no_cursor_would_take_is_paged_over(library: Library) -> None:
    names = ["a\u200b\n", "b" * 1_000, "\U0001f3b5"]
    for number, name in enumerate(names):
        ref = details().collections[0]
        one = ref.__class__("album", f"k{number}", name)
        library.change(item(f"{number:032x}", number, details=details(collections=(one,)), locators=()))
    assert sorted(library.all("/v1/sources/home/collections", "name")) == sorted(names)


@pytest.mark.parametrize(
    "path", ["sources", "sources/home/items", "sources/home/collections", f"media/{A}", f"collections/{ALBUM}"]
)
def test_a_known_answer_is_304_until_something_in_it_changes(library: Library, path: str) -> None:
    library.change(item(A, 0), item(B, 1))
    tag = library.get(f"/v1/{path}").headers["ETag"]
    assert library.get(f"/v1/{path}", headers={"If-None-Match": tag}).status_code == 304
    library.change(item(A, 2, details=details(title="Fugue")))
    changed = library.get(f"/v1/{path}", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    if path.startswith(("sources/home/items", "media", "collections")):
        tag = changed.headers["ETag"]
        library.change(scan(9, 3, status="finalized"))
        seen = library.get(f"/v1/{path}", headers={"If-None-Match": tag})
        assert '"last_seen_scan_id":"home:9"' in seen.text


def test_others_do_not_exist_for_a_token_that_may_not_see_them(library: Library) -> None:
    library.change(item(A, 0), scan(3, 1))
    paths = ["sources/home/items", "sources/home/scans", "sources/home/collections", "scans/home:3", f"media/{A}",
             f"collections/{ALBUM}"]  # fmt: skip
    for path in paths:
        assert library.get(f"/v1/{path}").status_code == 200, path
        assert library.get(f"/v1/{path}", "operator").status_code == 200, path
        refused = library.get(f"/v1/{path}", "flat")
        assert (refused.status_code, refused.headers["Content-Type"]) == (404, "application/problem+json"), path
        assert library.get(f"/v1/{path}", "reporter").status_code == 403, path
        assert library.get(f"/v1/{path}", headers={"Authorization": ""}).status_code == 401, path
    assert library.get("/v1/sources/nobody/items", "operator").status_code == 404
    assert library.get(f"/v1/media/{B}", "operator").status_code == 404
    assert library.get("/v1/media/u-a", "operator").json()["type"] == "urn:playhead:problem:source_needed"
    assert library.get("/v1/media/u-a?source=home", "operator").json()["media"] == A


def test_a_source_without_a_library_has_empty_lists(library: Library) -> None:
    for path in ("items", "scans", "collections"):
        answer = library.get(f"/v1/sources/flat/{path}", "flat")
        assert (answer.status_code, answer.json()) == (200, {"items": [], "next": None, "version": None})


@pytest.mark.parametrize(
    "path",
    ["sources/home/items?limit=0", "sources/home/items?limit=1001", "sources/home/items?status=nowhere",
     "sources/home/items?cursor=!!", "sources/home/items?text=%00", "sources/home/items?kind=%00",
     "sources/home/collections?cursor=WyJ6eiIsICJhIl0", "sources/home/collections?cursor=WyIwMCIsICJhIl0",
     "sources/%00/items", f"media/{'x' * 300}", "sources/home/scans?cursor=WyJhIl0"],
)  # fmt: skip
def test_what_makes_no_sense_is_422(library: Library, path: str) -> None:
    answer = library.get(f"/v1/{path}")
    assert answer.status_code == 422
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_without_a_database_the_answer_is_503_with_retry_after(library: Library, model_settings: Settings) -> None:
    nowhere = model_settings.postgres.model_copy(update={"port": 1})
    library._settings = model_settings.model_copy(update={"postgres": nowhere})
    for path in ("sources", "sources/home/items", "scans/home:3"):
        answer = library.get(f"/v1/{path}")
        assert answer.status_code == 503
        assert "Retry-After" in answer.headers

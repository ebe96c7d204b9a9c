"""Whole libraries of servers as they were seen to answer: each thing once, and never a short list taken for all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI

from schemas.library import CollectionRef, ProviderId
from streams.effects.scan.ports import SourceFailed
from streams.effects.scan.servers import ServerSource
from streams.runtime.clock import FakeClock
from streams.runtime.errors import ConfigurationError
from streams.runtime.upstreams import Account, UpstreamEntry
from streams.upstream import audiobookshelf, jellyfin, libraries, subsonic
from streams.upstream.http import Limits
from tests.effects.scan.desk import Desk, Told
from tests.ingest.pollers.servers import audiobookshelf as fake_abs
from tests.ingest.pollers.servers import jellyfin as fake_jellyfin
from tests.ingest.pollers.servers import subsonic as fake_subsonic
from tests.ingest.pollers.servers.audiobookshelf import FakeAudiobookshelf
from tests.ingest.pollers.servers.jellyfin import FakeJellyfin
from tests.ingest.pollers.servers.running import running
from tests.ingest.pollers.servers.subsonic import GONIC, NAVIDROME, SUPYSONIC, FakeSubsonic, Flavour, Song

QUICK = Limits(timeout_s=10, attempts=2, wait_s=0.01, rest_s=0)
FLAVOURS = pytest.mark.parametrize("flavour", [NAVIDROME, GONIC, SUPYSONIC], ids=["navidrome", "gonic", "supysonic"])


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Its address, while it answers from a thread of its own."""
    import asyncio

    ready: list[str] = []
    started, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with running(app) as url:
            ready.append(url)
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(30)
    try:
        yield ready[0]
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(30)


class Shelf:
    """One fake server, listed by ``scan()``."""

    def __init__(self, app: FastAPI, kind: str, account: Account, tmp_path: Path) -> None:
        self._app, self._kind, self._account = app, kind, account
        self.desk = Desk(tmp_path)

    def scan(self) -> Told:
        with served(self._app) as url:
            entry = UpstreamEntry("home", self._kind, url, 30, True, (self._account,))
            return self.desk.scan(ServerSource(entry, self.desk.clock, QUICK))

    def fails(self) -> list[tuple[str, str]]:
        with pytest.raises(SourceFailed):
            self.scan()
        told = self.desk.told()
        assert not any(type(event).__name__ == "ScanListed" for event in told.events)
        return told.failed


def ids(told: Told) -> list[str | None]:
    return [event.upstream_id for event in told.items]


def songs(count: int) -> list[Song]:
    return [Song(f"tr-{number}", f"al-{number // 5}", 100 + number) for number in range(count)]


def subsonic_shelf(flavour: Flavour, found: list[Song], tmp_path: Path) -> tuple[FakeSubsonic, Shelf]:
    server = FakeSubsonic(flavour, FakeClock(), found)
    login = "token" if flavour.tokens else "password"
    account = Account(fake_subsonic.USER, login, fake_subsonic.PASSWORD)
    return server, Shelf(server.app, "subsonic", account, tmp_path)


def jellyfin_shelf(count: int, tmp_path: Path) -> tuple[FakeJellyfin, Shelf]:
    server = FakeJellyfin(FakeClock(), {f"{number:032x}": 60_000 + number for number in range(count)})
    return server, Shelf(server.app, "jellyfin", Account("", "api_key", fake_jellyfin.TOKEN), tmp_path)


def abs_shelf(count: int, tmp_path: Path) -> tuple[FakeAudiobookshelf, Shelf]:
    server = FakeAudiobookshelf(FakeClock(), {f"book-{number}": 100.5 + number for number in range(count)})
    return server, Shelf(server.app, "audiobookshelf", Account("ana", "api_key", fake_abs.TOKEN), tmp_path)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subsonic, "PAGE", 10)
    monkeypatch.setattr(jellyfin, "LIBRARY_PAGE", 10)
    monkeypatch.setattr(audiobookshelf, "PAGE", 10)


@FLAVOURS
@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 37])
def test_a_subsonic_listing_is_the_servers_own_list_each_thing_once(
    flavour: Flavour, count: int, tmp_path: Path
) -> None:
    server, shelf = subsonic_shelf(flavour, songs(count), tmp_path)
    told = shelf.scan()
    assert sorted(map(str, ids(told))) == sorted(server.songs)
    assert told.listed.complete is True


@FLAVOURS
def test_untagged_tracks_that_one_list_leaves_out_are_found_by_another(flavour: Flavour, tmp_path: Path) -> None:
    found = songs(34)
    found += [Song("tr-u1", "al-0", 9, tagged=False), Song("tr-u2", "", 9, tagged=False, path="deep/er/x.mp3")]
    found += [Song("tr-u3", "", 9, tagged=False, path="top.mp3")]
    server, shelf = subsonic_shelf(flavour, found, tmp_path)
    told = shelf.scan()
    assert sorted(map(str, ids(told))) == sorted(server.songs)
    assert len(told.items) == 37
    assert told.listed.complete is True


@pytest.mark.parametrize(
    "lacks",
    [
        pytest.param({"getIndexes", "getMusicDirectory"}, id="no folders"),
        pytest.param({"getAlbumList2", "getAlbum"}, id="no albums"),
        pytest.param({"search3"}, id="no search"),
    ],
)
def test_an_untagged_track_is_found_by_whatever_lists_the_server_has(lacks: set[str], tmp_path: Path) -> None:
    found = [*songs(12), Song("tr-u", "al-0", 9, tagged=False)]
    server, shelf = subsonic_shelf(GONIC, found, tmp_path)
    server.lacks = lacks
    told = shelf.scan()
    assert sorted(map(str, ids(told))) == sorted(server.songs)
    assert told.listed.complete is True


def test_a_server_that_lists_nothing_at_all_fails_the_scan(tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(NAVIDROME, songs(3), tmp_path)
    server.lacks = {"search3", "getAlbumList2", "getIndexes"}
    assert shelf.fails()[0][0] == "upstream"


def test_albums_are_not_walked_when_the_search_found_all_the_server_counts(tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(NAVIDROME, songs(12), tmp_path)
    shelf.scan()
    assert {name for name, _ in server.requests} == {"search3", "getScanStatus"}


@FLAVOURS
def test_an_empty_mount_of_a_server_is_a_complete_listing_of_nothing(flavour: Flavour, tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(flavour, songs(12), tmp_path)
    server.lose_mount()
    told = shelf.scan()
    assert told.items == []
    assert told.listed.complete is True


@FLAVOURS
def test_a_mount_that_is_back_tells_the_same_places_and_facts_whatever_the_ids(
    flavour: Flavour, tmp_path: Path
) -> None:
    server, shelf = subsonic_shelf(flavour, [Song(f"tr-{n}", "al", 60 + n, title=f"T{n}") for n in range(7)], tmp_path)
    before = shelf.scan()
    server.lose_mount()
    shelf.scan()
    server.find_mount()
    after = shelf.scan()
    assert (set(ids(before)) == set(ids(after))) is not flavour.renews_ids

    def evidence(told: Told) -> set[tuple[bytes, str | None]]:
        return {(e.locator.path, e.details.content_hash) for e in told.items if e.locator and e.details}

    assert evidence(before) == evidence(after)
    assert len(evidence(after)) == 7


@FLAVOURS
def test_a_renamed_song_keeps_its_facts_where_its_id_is_renewed(flavour: Flavour, tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(flavour, [Song("tr-1", "al", 61, title="T")], tmp_path)
    before = shelf.scan().items[0]
    renamed = server.rename("tr-1", "other/name.mp3")
    after = shelf.scan().items[0]
    assert after.upstream_id == renamed
    assert (renamed == "tr-1") is not flavour.renews_ids
    assert before.details is not None
    assert after.details is not None
    assert after.details.content_hash == before.details.content_hash
    assert after.locator is not None
    assert after.locator.path == b"other/name.mp3"


def test_pages_that_repeat_without_end_are_no_complete_listing(tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(SUPYSONIC, songs(23), tmp_path)
    server.repeat_pages = True
    told = shelf.scan()
    assert len(set(ids(told))) == len(told.items)
    assert told.listed.complete is False


def test_one_page_that_is_all_there_is_may_come_again(tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(NAVIDROME, songs(7), tmp_path)
    server.repeat_pages = True
    told = shelf.scan()
    assert len(told.items) == 7
    assert told.listed.complete is True


def test_pages_that_reorder_between_two_requests_are_read_again_until_nothing_is_missed(tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(NAVIDROME, songs(37), tmp_path)

    def turn() -> None:
        server.reverse = not server.reverse

    server.moves_while_read = [turn, turn]
    told = shelf.scan()
    assert sorted(map(str, ids(told))) == sorted(server.songs)
    assert len(told.items) == 37
    assert told.listed.complete is True


def test_a_song_deleted_while_the_list_is_read_does_not_hide_another(tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(NAVIDROME, songs(37), tmp_path)
    server.moves_while_read = [lambda: server.delete("tr-3")]
    told = shelf.scan()
    assert set(ids(told)) >= set(server.songs)
    assert told.listed.complete is True


def test_a_list_that_never_holds_still_is_not_complete(tmp_path: Path) -> None:
    server, shelf = subsonic_shelf(NAVIDROME, songs(37), tmp_path)
    server.moves_while_read = [lambda name=f"tr-{n}": server.delete(name) for n in range(20)]  # type: ignore[misc]
    assert shelf.scan().listed.complete is False


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_an_error_on_any_page_fails_the_scan(tmp_path: Path, after: int) -> None:
    server, shelf = subsonic_shelf(NAVIDROME, songs(37), tmp_path)
    server.broken_after = after
    [(reason, detail)] = shelf.fails()
    assert reason == "upstream"
    assert detail.startswith("away: ")


def test_a_wrong_password_fails_the_scan_and_is_not_told(tmp_path: Path) -> None:
    server, _ = subsonic_shelf(NAVIDROME, songs(3), tmp_path)
    shelf = Shelf(server.app, "subsonic", Account(fake_subsonic.USER, "token", "s3cret"), tmp_path)
    [(reason, detail)] = shelf.fails()
    assert (reason, detail.split(":")[0]) == ("upstream", "credentials")
    assert "s3cret" not in detail


@pytest.mark.parametrize("count", [0, 1, 10, 37])
def test_a_jellyfin_listing_is_the_servers_own_list(count: int, tmp_path: Path) -> None:
    server, shelf = jellyfin_shelf(count, tmp_path)
    told = shelf.scan()
    assert ids(told) == list(server.items)
    assert told.listed.complete is True


def test_a_jellyfin_item_is_told_with_place_facts_and_version(tmp_path: Path) -> None:
    _, shelf = jellyfin_shelf(1, tmp_path)
    [item] = shelf.scan().items
    assert item.locator is not None
    assert item.details is not None
    assert item.locator.path == f"/media/films/{0:032x}.mkv".encode()
    assert (item.locator.size, item.details.duration_ms) == (5_060_000, 60_000)
    assert item.details.provider_ids == (ProviderId("imdb", "tt1234567"),)
    assert item.details.version == 1_796_000_000_000
    assert (item.details.media_kind, item.details.item_kind) == ("video", "movie")
    assert str(item.details.content_hash).startswith("facts:")


def test_episodes_that_nobody_has_are_counted_not_told(tmp_path: Path) -> None:
    server, shelf = jellyfin_shelf(12, tmp_path)
    server.virtual = {f"{3:032x}"}
    told = shelf.scan()
    assert len(told.items) == 11
    assert told.count("virtual") == 1
    assert told.listed.complete is True


def test_a_persons_token_reads_as_that_person(tmp_path: Path) -> None:
    server, shelf = jellyfin_shelf(12, tmp_path)
    server.person = fake_jellyfin.ANA
    assert len(shelf.scan().items) == 12


def reversing(server: FakeJellyfin) -> list[Callable[[], None]]:
    def turn() -> None:
        server.reverse = not server.reverse

    return [turn] * 2


def deleting(server: FakeJellyfin) -> list[Callable[[], None]]:
    def delete() -> None:
        server.items.pop(next(iter(server.items)))

    return [delete]


@pytest.mark.parametrize("trouble", [reversing, deleting])
def test_a_jellyfin_list_that_moves_while_it_is_read_is_read_again(
    trouble: Callable[[FakeJellyfin], list[Callable[[], None]]], tmp_path: Path
) -> None:
    server, shelf = jellyfin_shelf(37, tmp_path)
    server.moves_while_read = trouble(server)
    told = shelf.scan()
    assert set(ids(told)) >= set(server.items)
    assert len(set(ids(told))) == len(told.items)
    assert told.listed.complete is True


def test_jellyfin_pages_that_repeat_are_no_complete_listing(tmp_path: Path) -> None:
    server, shelf = jellyfin_shelf(37, tmp_path)
    server.repeat_pages = True
    told = shelf.scan()
    assert len(told.items) == 10
    assert told.listed.complete is False


def test_a_jellyfin_that_is_away_fails_the_scan(tmp_path: Path) -> None:
    server, shelf = jellyfin_shelf(3, tmp_path)
    server.away = True
    assert shelf.fails()[0][0] == "upstream"


@pytest.mark.parametrize("count", [0, 1, 10, 25])
def test_an_audiobookshelf_listing_is_the_servers_own_list(count: int, tmp_path: Path) -> None:
    server, shelf = abs_shelf(count, tmp_path)
    told = shelf.scan()
    assert ids(told) == list(server.durations)
    assert told.listed.complete is True


def test_a_book_is_told_with_its_facts(tmp_path: Path) -> None:
    _, shelf = abs_shelf(1, tmp_path)
    [book] = shelf.scan().items
    assert book.locator is not None
    assert book.details is not None
    assert (book.locator.path, book.locator.size) == (b"/audiobooks/book-0", 7_000_000)
    assert (book.details.duration_ms, book.details.version) == (100_500, 1_796_000_001_000)
    assert book.details.provider_ids == (ProviderId("isbn", "9780000000002"),)
    assert book.details.collections == (
        CollectionRef("author", "ursula vernon", "Ursula Vernon"),
        CollectionRef("author", "t. kingfisher", "T. Kingfisher"),
        CollectionRef("series", "Swords", "Swords"),
    )


def test_books_that_the_server_misses_itself_are_not_seen(tmp_path: Path) -> None:
    server, shelf = abs_shelf(12, tmp_path)
    server.missing = {"book-3", "book-11"}
    told = shelf.scan()
    assert len(told.items) == 10
    assert told.count("missing_upstream") == 2


def test_episodes_of_podcasts_are_told_under_the_id_their_progress_has(tmp_path: Path) -> None:
    server, shelf = abs_shelf(2, tmp_path)
    file = {"metadata": {"path": "/casts/1.mp3", "size": 5, "ext": ".mp3"}, "duration": 61.5}
    server.podcasts = {"cast": [{"id": "ep-1", "title": "One", "audioFile": file}, {"id": "ep-2", "title": "Two"}]}
    told = shelf.scan()
    assert ids(told) == ["book-0", "book-1", "cast/ep-1", "cast/ep-2"]
    first = told.items[2].details
    assert first is not None
    assert (first.media_kind, first.item_kind, first.duration_ms) == ("podcast", "episode", 61_500)
    assert told.items[3].details is not None
    assert told.items[3].details.content_hash is None


def test_audiobookshelf_pages_that_repeat_are_no_complete_listing(tmp_path: Path) -> None:
    server, shelf = abs_shelf(25, tmp_path)
    server.repeat_pages = True
    told = shelf.scan()
    assert len(told.items) == 10
    assert told.listed.complete is False


def test_a_kind_that_can_not_be_listed_needs_an_operator(tmp_path: Path) -> None:
    entry = UpstreamEntry("home", "plex", "http://127.0.0.1:1", 30, True, (Account("", "api_key", "x"),))
    with pytest.raises(ConfigurationError):
        Desk(tmp_path).scan(ServerSource(entry, FakeClock(), QUICK))


def test_an_address_nothing_may_be_asked_of_fails_the_scan(tmp_path: Path) -> None:
    entry = UpstreamEntry("home", "jellyfin", "ftp://home", 30, True, (Account("", "api_key", "x"),))
    desk = Desk(tmp_path)
    with pytest.raises(SourceFailed):
        desk.scan(ServerSource(entry, FakeClock(), QUICK))
    assert desk.told().failed[0][0] == "upstream"


def test_ids_over_the_limit_are_counted_not_cut(tmp_path: Path) -> None:
    found = [*songs(3), Song("x" * 300, "al", 5)]
    _, shelf = subsonic_shelf(NAVIDROME, found, tmp_path)
    told = shelf.scan()
    assert len(told.items) == 3
    assert told.count("bad_id") == 1
    assert libraries.FOLDERS_DEEP == 64

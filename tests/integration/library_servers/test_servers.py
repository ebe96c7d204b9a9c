"""Libraries of media servers end to end: what is read is what the server lists, whatever happens to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.ingest.pollers.servers.subsonic import GONIC, NAVIDROME, SUPYSONIC, Song
from tests.integration.library_servers.conftest import MAKERS, AnyShelf, Home
from tests.integration.library_servers.served import Served, Web
from tests.integration.library_servers.shelves import AudiobookshelfShelf, JellyfinShelf, SubsonicShelf

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library_servers"), pytest.mark.long]

Serve = Callable[[AnyShelf], tuple[Web, Served]]
SOME = pytest.mark.parametrize("home", ["gonic", "jellyfin", "audiobookshelf"], indirect=True)
"""One of each kind."""
EACH = pytest.mark.parametrize("home", list(MAKERS), indirect=True)


@EACH
def test_rescans_deletions_and_renames_leave_what_the_server_lists_and_all_that_was_played(home: Home) -> None:
    shelf, library = home.shelf, home.library
    before = library.ids_by_mark()
    first, second, *_ = before
    library.scan()
    assert library.ids_by_mark() == before
    assert [type(change).__name__ for change in library.house.changes(library.source_id)].count("ItemChanged") == 12
    shelf.rename(first)
    shelf.delete(second)
    shelf.add(50)
    library.scan()
    library.check()
    now = library.ids_by_mark()
    assert now[first] == before[first]
    assert library.statuses(before[second]) == ["missing"]
    assert len(now) == 12
    assert library.position(before[second]) == library.played[second]


@pytest.mark.parametrize("home", ["navidrome", "gonic", "jellyfin", "audiobookshelf"], indirect=True)
def test_a_lost_mount_is_held_and_its_return_changes_nothing(home: Home) -> None:
    shelf, library = home.shelf, home.library
    before = library.ids_by_mark()
    shelf.lose_mount()
    scan = library.scan("held", "root_changed")
    assert scan.counts["seen"] == 0
    library.check_held(before)
    shelf.find_mount()
    library.scan()
    library.check()
    assert library.ids_by_mark() == before
    assert len(library.items()) == 12


@SOME
def test_a_lost_mount_that_was_confirmed_is_recognised_when_it_is_back(home: Home) -> None:
    shelf, library = home.shelf, home.library
    before = library.ids_by_mark()
    shelf.lose_mount()
    library.confirm(library.scan("held", "root_changed").generation)
    library.check()
    assert set(library.statuses(*before.values())) == {"missing"}
    shelf.find_mount()
    library.scan()
    library.check()
    assert library.ids_by_mark() == before


@pytest.mark.parametrize("home", ["gonic", "jellyfin"], indirect=True)
def test_a_server_that_was_away_is_scanned_when_it_is_back_and_nothing_was_missing(home: Home) -> None:
    library = home.library
    before = library.ids_by_mark()
    with home.web.away():
        library.scan_that_fails()
        library.check_held(before)
    home.shelf.add(60)
    library.recovers()
    library.check()
    assert {**library.ids_by_mark(), **before} == library.ids_by_mark()


@pytest.mark.parametrize("home", ["navidrome"], indirect=True)
def test_a_page_that_can_not_be_read_fails_the_scan_and_nothing_is_missing(home: Home) -> None:
    shelf, library = home.shelf, home.library
    assert isinstance(shelf, SubsonicShelf)
    before = library.ids_by_mark()
    shelf.server.broken_after = 1
    library.scan_that_fails()
    library.check_held(before)
    shelf.server.broken_after = None
    library.recovers()
    library.check()
    assert library.ids_by_mark() == before


@pytest.mark.parametrize("home", ["navidrome", "jellyfin", "audiobookshelf"], indirect=True)
def test_pages_that_repeat_make_nothing_missing_and_nothing_twice(home: Home) -> None:
    library = home.library
    before = library.ids_by_mark()
    home.shelf.server.repeat_pages = True
    home.shelf.add(70)
    library.scan("incomplete", "listing_incomplete")
    assert before.items() <= library.ids_by_mark().items()
    home.shelf.server.repeat_pages = False
    library.scan()
    library.check()


@pytest.mark.parametrize("home", ["navidrome", "jellyfin"], indirect=True)
def test_pages_that_reorder_while_they_are_read_lose_nothing(home: Home) -> None:
    shelf, library = home.shelf, home.library
    assert isinstance(shelf, SubsonicShelf | JellyfinShelf)
    before = library.ids_by_mark()

    def turn() -> None:
        shelf.server.reverse = not shelf.server.reverse

    shelf.server.moves_while_read = [turn]
    library.scan()
    library.check()
    assert library.ids_by_mark() == before
    assert shelf.server.moves_while_read == []


def test_untagged_songs_that_one_list_leaves_out_are_found_by_another(serve: Serve) -> None:
    shelf = SubsonicShelf(GONIC, 9)
    for song in (
        Song("tr-u1", "al-0", 9, tagged=False),
        Song("tr-u2", "", 8, tagged=False, path="deep/er/x.mp3"),
        Song("tr-u3", "", 7, tagged=False, path="top.mp3"),
    ):
        shelf.server.songs[song.id] = song
    _, library = serve(shelf)
    library.scan()
    library.check()
    library.listen()
    assert len(library.ids_by_mark()) == 12
    library.scan()
    library.check()


@pytest.mark.parametrize("flavour", [GONIC, SUPYSONIC], ids=["gonic", "supysonic"])
def test_what_was_played_under_a_renewed_id_before_the_scan_is_one_with_what_was_before(
    serve: Serve, flavour: object
) -> None:
    shelf = SubsonicShelf(GONIC if flavour is GONIC else SUPYSONIC, 12)
    _, library = serve(shelf)
    library.scan()
    library.listen()
    before = library.ids_by_mark()
    early, late, *_ = before
    shelf.rename(early)
    shelf.rename(late)
    library.listen(early)  # by its new id, which no scan has told of
    library.scan()
    library.check()
    assert library.ids_by_mark() == before
    library.listen(early, late)
    library.check()
    # Twice renewed, and played between.
    shelf.rename(early)
    library.listen(early)
    library.scan()
    library.check()
    assert library.ids_by_mark() == before


def test_a_book_that_was_copied_and_deleted_is_the_same_under_its_new_id(serve: Serve) -> None:
    shelf = AudiobookshelfShelf(12)
    _, library = serve(shelf)
    library.scan()
    library.listen()
    before = library.ids_by_mark()
    mark = next(iter(before))
    shelf.copy_and_delete(mark)
    library.scan()
    library.check()
    assert library.ids_by_mark() == before


def test_two_editions_with_one_provider_id_are_two_media_of_one_work_whatever_their_ids(serve: Serve) -> None:
    shelf = JellyfinShelf(10)
    marks = shelf.marks()
    editions = [60_003, 60_007]
    for mark in editions:
        shelf.server.providers[marks[mark]] = {"Imdb": "tt7654321"}
    _, library = serve(shelf)
    library.scan()
    library.check()
    library.listen()
    before = library.ids_by_mark()

    def works() -> set[str]:
        rows = library.house.query(
            "SELECT work_id FROM api.items WHERE source_id = %s AND duration_ms = ANY(%s)", library.source_id, editions
        )
        assert len(rows) == 2
        return {row[0] for row in rows}

    assert len(works()) == 1
    assert None not in works()
    for order in (editions, editions[::-1]):
        for mark in order:
            shelf.rename(mark)
        library.scan()
        library.check()
        assert library.ids_by_mark() == before
        assert len(works()) == 1


def test_twins_with_equal_facts_keep_their_own_state_when_all_ids_are_new(serve: Serve) -> None:
    shelf = SubsonicShelf(GONIC, 4)
    twins = {f"{folder}/twin.mp3" for folder in "abcdef"}
    for number, path in enumerate(sorted(twins)):
        song = Song(f"tr-tw{number}", "al-t", 55, title="Twin", path=path)
        shelf.server.songs[song.id] = song
    _, library = serve(shelf)
    library.scan()

    def by_path() -> dict[bytes, str]:
        return {path: item.media_id for item in library.items().values() for path in item.paths}

    before = by_path()
    assert len(set(before.values())) == 10
    shelf.lose_mount()
    library.scan("held", "root_changed")
    shelf.find_mount()
    library.scan()
    assert by_path() == before


@pytest.mark.parametrize("flavour", [NAVIDROME], ids=["navidrome"])
def test_an_id_that_is_given_away_again_merges_no_media_that_lives(serve: Serve, flavour: object) -> None:
    assert flavour is NAVIDROME
    shelf = SubsonicShelf(NAVIDROME, 12)
    _, library = serve(shelf)
    library.scan()
    library.listen()
    before = library.ids_by_mark()
    songs = shelf.server.songs

    def renumber(mark: int, upstream_id: str) -> None:
        song = songs.pop(shelf.marks()[mark])
        song.path, song.id = song.place, upstream_id
        songs[upstream_id] = song

    renumber(100_000, "tr-new")  # song 0 leaves its id
    library.scan()
    library.check()
    renumber(101_000, "tr-0")  # and song 1 gets it: the id computed of it is song 0's
    library.scan()
    library.check(reused=True)
    assert library.ids_by_mark() == before
    merged = {event.media_id for event in library.merges()}
    assert merged == {library.computed("tr-new")}
    assert not merged & set(before.values())
    # By the id that was given away it is song 1 now.
    assert library.position("tr-0") == library.played[101_000]


def test_after_a_fresh_database_gave_all_ids_to_other_songs_everybody_goes_on_where_they_were(serve: Serve) -> None:
    shelf = SubsonicShelf(GONIC, 12)
    _, library = serve(shelf)
    library.scan()
    library.listen()
    before = library.ids_by_mark()
    songs = shelf.server.songs
    ids, at = list(songs), {song.id: song.place for song in songs.values()}
    for turn in (1, 5):
        turned = [songs[one] for one in ids[turn:] + ids[:turn]]
        for song in turned:
            song.path = at[song.id] if turn == 1 else song.place  # where its file has been all the time
        songs.clear()
        for song, upstream_id in zip(turned, ids, strict=True):
            song.id = upstream_id
            songs[upstream_id] = song
        library.scan()
        library.check(reused=True)
        assert library.ids_by_mark() == before
        assert library.merges() == []
        # By ids that doors have just known as other songs'.
        library.listen()
        library.check(reused=True)
    changes = len(library.house.changes(library.source_id))
    library.scan()
    told = [type(change).__name__ for change in library.house.changes(library.source_id)[changes:]]
    assert set(told) == {"ScanChanged"}

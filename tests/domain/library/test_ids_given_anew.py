"""A server with a fresh database: the ids are small counters, and now mean other items.

An id is no evidence where both what it bears and where that lies are another's. What is there is then known by these
two; a scan decides about all of it together when everything is listed.
"""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.library import ItemDetails, Locator
from streams.domain.identity import media_id
from streams.domain.library.outputs import Aliased, Merged

from .simple import SOURCE, Library, facts
from .test_properties import check_rows, confirm

SONGS = "abcdef"
Shelf = dict[str, str]
"""Songs by upstream id."""


def serve(library: Library, shelf: Shelf, *, paths: bool = True, order: list[str] | None = None) -> None:
    ids = sorted(shelf) if order is None else order
    listing: dict[str, ItemDetails | None] = {one: facts(shelf[one]) for one in ids}
    where = {one: b"music/%s.mp3" % song.encode() for one, song in shelf.items()} if paths else None
    assert library.serve(listing, where).status == "finalized"


def media_of(library: Library) -> dict[str, str]:
    """The media of each song that is there."""
    return {
        str(item.details.title): item.media_id
        for item in library.items.values()
        if item.status == "present" and item.details is not None
    }


def leads(library: Library, upstream_id: str) -> str:
    """Where a report under an id goes: as the table of aliases says, else as computed."""
    found = media_id(SOURCE, upstream_id)
    for output in library.told:
        if isinstance(output, Aliased) and output.upstream_id == upstream_id:
            found = output.media_id
    return found


def numbered(songs: str, first: int = 1) -> Shelf:
    return {str(number): song for number, song in enumerate(songs, first)}


ORDERS = ["fedcba", "bcdefa", "badcfe", "acbdef", "fabcde"]


@pytest.mark.parametrize("paths", [True, False])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("songs", ORDERS)
def test_songs_keep_their_media_when_the_same_ids_are_given_to_others(songs: str, backward: bool, paths: bool) -> None:
    library = Library()
    serve(library, numbered(SONGS), paths=paths)
    before = media_of(library)
    for shelf in (numbered(songs), numbered(SONGS), numbered(songs)):
        serve(library, shelf, paths=paths, order=sorted(shelf, reverse=backward))
        assert media_of(library) == before
        assert {song: leads(library, one) for one, song in shelf.items()} == before
        since = len(library.told)
        serve(library, shelf, paths=paths)
        assert library.changes(since) == []
    assert not any(isinstance(output, Merged) for output in library.told)


@pytest.mark.parametrize("backward", [False, True])
def test_songs_that_are_new_get_media_of_their_own_and_what_is_gone_is_missing(backward: bool) -> None:
    library = Library()
    serve(library, numbered(SONGS))
    before = media_of(library)
    # Songs b and e are gone, x and y are new.
    shelf = numbered("xadcyf")
    serve(library, shelf, order=sorted(shelf, reverse=backward))
    after = media_of(library)
    assert {song: after[song] for song in "adcf"} == {song: before[song] for song in "adcf"}
    assert {after["x"], after["y"]}.isdisjoint(before.values())
    assert {library.status(before[song]) for song in "be"} == {"missing"}
    assert {song: leads(library, one) for one, song in shelf.items()} == after


@pytest.mark.parametrize("order", list(permutations(["1", "2", "7"])))
def test_an_id_whose_item_has_another_id_now_is_of_a_new_item(order: tuple[str, ...]) -> None:
    library = Library()
    serve(library, {"1": "a", "2": "b"})
    before = media_of(library)
    serve(library, {"1": "new", "2": "b", "7": "a"}, order=list(order))
    after = media_of(library)
    assert (after["a"], after["b"]) == (before["a"], before["b"])
    assert after["new"] not in before.values()
    assert (leads(library, "1"), leads(library, "7")) == (after["new"], before["a"])


def test_an_item_edited_and_renamed_under_its_id_stays_what_it_is() -> None:
    """Some servers make paths of tags."""
    library = Library()
    serve(library, numbered(SONGS))
    before = media_of(library)
    serve(library, numbered("abcdeF"))
    assert media_of(library)["F"] == before["f"]
    assert leads(library, "6") == before["f"]


@pytest.mark.parametrize("paths", [{"1": b"a.mp3", "2": b"b.mp3"}, None])
def test_a_better_file_under_its_id_and_path_stays_what_it_is(paths: dict[str, bytes] | None) -> None:
    library = Library()
    library.serve({"1": facts("a"), "2": facts("b")}, paths)
    before = media_of(library)
    library.serve({"1": facts("better", title="a"), "2": facts("b")}, paths)
    assert media_of(library) == before


def test_an_item_renamed_under_its_id_stays_what_it_is_though_a_copy_of_it_lay_there() -> None:
    library = Library()
    library.serve({"1": facts("a"), "2": facts("a")}, {"1": b"x/a", "2": b"y/a"})
    one = media_id(SOURCE, "1")
    library.serve({"1": facts("a"), "2": facts("a")}, {"1": b"y/a", "2": b"z/a"})
    assert library.paths(one) == {b"y/a"}
    assert library.paths(media_id(SOURCE, "2")) == {b"z/a"}


def test_copies_keep_the_media_of_their_paths_when_the_same_ids_are_given_to_others() -> None:
    library = Library()
    """Of them alone nobody could tell; other ids show it."""
    names = {"1": b"x/a", "2": b"y/a", "3": b"x/b", "4": b"x/c"}
    library = Library()
    library.serve({"1": facts("a"), "2": facts("a"), "3": facts("b"), "4": facts("c")}, names)
    before = {path: library.at(path) for path in names.values()}
    library.serve(
        {"1": facts("a"), "2": facts("a"), "3": facts("c"), "4": facts("b")},
        {"1": b"y/a", "2": b"x/a", "3": b"x/c", "4": b"x/b"},
    )
    assert {path: library.at(path) for path in names.values()} == before


def test_a_hook_about_an_id_that_was_given_to_another_spoils_nothing_before_the_scan() -> None:
    library = Library()
    serve(library, numbered("ab"))
    before = media_of(library)
    for how in ("hook", "poll", "refresh"):
        library.hook("1", details=facts("b", version=99), how=how)
        library.hook("1", details=facts("new", version=99), how=how, locator=Locator(b"n.mp3", None, None, None, None))
    assert media_of(library) == before
    serve(library, numbered("ba"))
    assert media_of(library) == before


def test_an_id_in_doubt_whose_scan_breaks_off_is_what_it_was() -> None:
    library = Library()
    serve(library, numbered("ab"))
    before, since = media_of(library), len(library.told)
    state = library.serve(
        {"1": facts("b"), "2": facts("a")}, {"1": b"music/b.mp3", "2": b"music/a.mp3"}, complete=False
    )
    assert state.status == "incomplete"
    assert library.changes(since) == []
    serve(library, numbered("ba"))
    assert media_of(library) == before


@given(data=st.data())
def test_a_song_that_is_still_there_is_what_it_was_whoever_has_its_id(data: st.DataObject) -> None:
    library = Library()
    names, media = "abcdefgh", dict[str, str]()
    for _ in range(4):
        songs = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1), label="songs")
        shelf = numbered("".join(songs))
        serve_anyhow(library, shelf, data.draw(st.permutations(sorted(shelf)), label="order"))
        check_rows(library)
        now = media_of(library)
        assert set(now) == set(songs)
        assert {song: leads(library, one) for one, song in shelf.items()} == now
        kept = {song: now[song] for song in now.keys() & media.keys()}
        assert kept == {song: media[song] for song in kept}
        media = now


def serve_anyhow(library: Library, shelf: Shelf, order: list[str]) -> None:
    """A scan; what it holds is confirmed."""
    where = {one: b"music/%s.mp3" % song.encode() for one, song in shelf.items()}
    library.serve({one: facts(shelf[one]) for one in order}, where)
    confirm(library)
    assert library.scans[library.generation].status == "finalized"

"""Ids renewed all at once: what shared one kind of evidence was paired by chance, and state went to another item."""

from __future__ import annotations

from dataclasses import replace

from schemas.library import ProviderId
from tests.domain.library.simple import Library, facts

ORDERS = ([0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [3, 0, 4, 1, 5, 2])


def test_editions_of_one_catalogue_id_keep_their_media_when_all_ids_are_renewed() -> None:
    work = (ProviderId("imdb", "tt0000001"),)
    editions = [replace(facts(f"edition {number}"), provider_ids=work) for number in range(6)]
    library = Library()
    library.serve({f"a{number}": one for number, one in enumerate(editions)})
    before = {item.details: item.media_id for item in library.items.values()}
    for turn, order in enumerate(ORDERS):
        library.serve({f"{turn}-{number}": editions[number] for number in order})
        assert {item.details: item.media_id for item in library.items.values()} == before


def test_copies_keep_the_media_of_their_paths_when_all_ids_are_renewed() -> None:
    library = Library()
    names = {f"a{number}": b"folder/%d.mp3" % number for number in range(6)}
    library.serve(dict.fromkeys(names, facts("one")), names)
    before = {path: library.at(path) for path in names.values()}
    assert len(set(before.values())) == 6
    for turn, order in enumerate(ORDERS):
        renewed = {f"{turn}-{number}": b"folder/%d.mp3" % number for number in order}
        library.serve(dict.fromkeys(renewed, facts("one")), renewed)
        assert {path: library.at(path) for path in before} == before

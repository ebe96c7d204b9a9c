"""One Playhead for all tests of this folder, and servers of its own for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeAlias

import pytest

from streams.upstream import audiobookshelf, jellyfin, subsonic
from tests.ingest.pollers.servers.subsonic import GONIC, NAVIDROME, SUPYSONIC
from tests.integration.library import house as houses
from tests.integration.library.house import House
from tests.integration.library_servers.served import Served, Web
from tests.integration.library_servers.shelves import AudiobookshelfShelf, JellyfinShelf, SubsonicShelf

AnyShelf: TypeAlias = SubsonicShelf | JellyfinShelf | AudiobookshelfShelf
MAKERS: dict[str, Callable[[int], AnyShelf]] = {
    "navidrome": lambda count: SubsonicShelf(NAVIDROME, count),
    "gonic": lambda count: SubsonicShelf(GONIC, count),
    "supysonic": lambda count: SubsonicShelf(SUPYSONIC, count),
    "jellyfin": JellyfinShelf,
    "audiobookshelf": AudiobookshelfShelf,
}


@pytest.fixture(scope="package")
def house() -> Iterator[House]:
    with houses.house() as made:
        yield made


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subsonic, "PAGE", 5)
    monkeypatch.setattr(jellyfin, "LIBRARY_PAGE", 5)
    monkeypatch.setattr(audiobookshelf, "PAGE", 5)


class Home:
    """A server with the source that is read from it."""

    def __init__(self, shelf: AnyShelf, web: Web, library: Served) -> None:
        self.shelf, self.web, self.library = shelf, web, library


@pytest.fixture
def serve(house: House, unique_name: Callable[[str], str]) -> Iterator[Callable[[AnyShelf], tuple[Web, Served]]]:
    """Make a source of a server; never scanned."""
    with ExitStack() as stack:

        def made(shelf: AnyShelf) -> tuple[Web, Served]:
            web = Web(shelf.app)
            stack.callback(web.down)
            library = Served(house, unique_name(shelf.kind).lower(), shelf, web.url)
            stack.callback(library.close)
            return web, library

        yield made


@pytest.fixture
def home(request: pytest.FixtureRequest, serve: Callable[[AnyShelf], tuple[Web, Served]]) -> Home:
    """Of the kind the test names, with twelve items, scanned and played."""
    shelf = MAKERS[request.param](12)
    web, library = serve(shelf)
    library.scan()
    library.check()
    library.listen()
    return Home(shelf, web, library)

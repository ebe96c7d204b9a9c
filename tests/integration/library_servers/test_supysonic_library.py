"""A real supysonic above a real folder of songs. It renews ids at every rename, and deletes all of an empty mount."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from streams.runtime.upstreams import Account
from tests.effects.scan.media import make_mp3
from tests.integration.library.house import House
from tests.integration.library_servers.served import Served
from tests.integration.pollers import supysonic
from tests.integration.pollers.supysonic import PASSWORD, USER, NotInstallable, Supysonic

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("library_servers"), pytest.mark.long]
FRAMES_A_SECOND = 39
COUNT = 12


class RealShelf:
    """Songs of 2, 3, … seconds, each with tags of its own."""

    kind = "subsonic"
    account = Account(USER, "password", PASSWORD)

    def __init__(self, server: Supysonic) -> None:
        self.server = server
        self.music = server.music
        self._aside = server.music.with_name("aside")
        for number in range(COUNT):
            self.song(number, f"band {number % 3}/album {number % 2}/{number}.mp3")

    def song(self, number: int, name: str) -> None:
        make_mp3(
            self.music / name,
            frames=FRAMES_A_SECOND * (2 + number),
            title=f"Kite {number}",
            artist=f"Band {number % 3}",
            album=f"Wind {number % 2}",
            track=str(number + 1),
        )

    def _asked(self) -> list[dict[str, object]]:
        login = {"u": USER, "p": PASSWORD, "v": "1.10.0", "c": "oracle", "f": "json"}
        search = {"query": "", "songCount": "500", "artistCount": "0", "albumCount": "0"}
        answer = httpx.get(f"{self.server.url}/rest/search3", params={**login, **search}, timeout=60, trust_env=False)
        found = answer.json()["subsonic-response"]
        assert found["status"] == "ok", found
        songs = found["searchResult3"].get("song", [])
        assert isinstance(songs, list)
        return songs

    def marks(self) -> dict[int, str]:
        """Its own list, asked for by the test itself."""
        songs = self._asked()
        found = {int(str(song["duration"])) * 1000: str(song["id"]) for song in songs}
        assert len(found) == len(songs)
        return found

    def paths(self) -> dict[str, int]:
        return {str(song["path"]): int(str(song["duration"])) * 1000 for song in self._asked()}

    def rename(self, old: str, new: str) -> None:
        (self.music / new).parent.mkdir(parents=True, exist_ok=True)
        (self.music / old).rename(self.music / new)

    def lose_mount(self) -> None:
        self._move(self.music, self._aside)

    def find_mount(self) -> None:
        self._move(self._aside, self.music)

    @staticmethod
    def _move(old: Path, new: Path) -> None:
        new.mkdir(exist_ok=True)
        for name in os.listdir(old):
            (old / name).rename(new / name)


@pytest.fixture
def shelf() -> Iterator[RealShelf]:
    try:
        programs = supysonic.installed()
    except NotInstallable as exc:
        # CI has the network it takes; there its absence is a failure.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"supysonic can't be installed here: {exc}")
    with supysonic.running(programs, watching=False) as server:
        shelf = RealShelf(server)
        server.scan()
        assert len(shelf.marks()) == COUNT
        yield shelf


def test_ids_and_state_are_kept_through_renames_moves_an_empty_mount_and_its_return(
    shelf: RealShelf, house: House, unique_name: Callable[[str], str]
) -> None:
    library = Served(house, unique_name("supysonic").lower(), shelf, shelf.server.url)
    scan = shelf.server.scan
    try:
        library.scan()
        library.check()
        library.listen()
        before = library.ids_by_mark()
        first = shelf.marks()
        by_path = shelf.paths()

        # A song renamed, one moved, one in other case: each has another id there.
        changed = {
            by_path[old]: (old, new)
            for old, new in (
                ("band 0/album 0/0.mp3", "band 0/album 0/renamed.mp3"),
                ("band 1/album 1/1.mp3", "elsewhere/deep/1.mp3"),
                ("band 2/album 0/2.mp3", "band 2/album 0/2.MP3"),
            )
        }
        for old, new in changed.values():
            shelf.rename(old, new)
        scan()
        now = shelf.marks()
        assert {mark for mark in now if now[mark] != first[mark]} == set(changed)
        library.listen(*changed)  # under ids that no scan of ours has seen
        library.scan()
        library.check()
        assert library.ids_by_mark() == before

        # A whole folder has another name.
        shelf.rename("band 1", "band one")
        scan()
        library.scan()
        library.check()
        assert library.ids_by_mark() == before

        # The mount is lost: it deletes everything. It is back: all ids are new.
        last = shelf.marks()
        shelf.lose_mount()
        scan()
        assert shelf.marks() == {}
        library.scan("held", "root_changed")
        library.check_held(before)
        shelf.find_mount()
        scan()
        assert not set(shelf.marks().values()) & set(last.values())
        library.scan()
        library.check()
        assert library.ids_by_mark() == before
        library.listen()

        # A song is deleted for good, and a new one comes.
        gone = shelf.paths()["band 0/album 1/3.mp3"]
        (shelf.music / "band 0/album 1/3.mp3").unlink()
        shelf.song(COUNT, "band 0/new.mp3")
        scan()
        library.scan()
        library.check()
        assert library.statuses(before[gone]) == ["missing"]
        assert len(library.ids_by_mark()) == COUNT
        assert library.position(before[gone]) == library.played[gone]
    finally:
        library.close()

"""The fake servers as sources of a library, all with the same few things that may happen to them."""

from __future__ import annotations

from streams.runtime.clock import FakeClock
from streams.runtime.upstreams import Account
from tests.ingest.pollers.servers import audiobookshelf, jellyfin, subsonic
from tests.ingest.pollers.servers.audiobookshelf import FakeAudiobookshelf
from tests.ingest.pollers.servers.jellyfin import FakeJellyfin
from tests.ingest.pollers.servers.subsonic import FakeSubsonic, Flavour, Song


class SubsonicShelf:
    kind = "subsonic"

    def __init__(self, flavour: Flavour, count: int) -> None:
        self.server = FakeSubsonic(flavour, FakeClock(), [self.song(number) for number in range(count)])
        self.app = self.server.app
        login = "token" if flavour.tokens else "password"
        self.account = Account(subsonic.USER, login, subsonic.PASSWORD)

    @staticmethod
    def song(number: int) -> Song:
        return Song(f"tr-{number}", f"al-{number // 5}", 100 + number, title=f"Kite {number}")

    def marks(self) -> dict[int, str]:
        server = self.server
        return {int(song.duration * 1000): song.id for song in server.songs.values()} if server.mounted else {}

    def add(self, number: int) -> None:
        song = self.song(number)
        self.server.songs[song.id] = song

    def rename(self, mark: int) -> str:
        return self.server.rename(self.marks()[mark], f"moved/{mark}.mp3")

    def delete(self, mark: int) -> None:
        self.server.delete(self.marks()[mark])

    def lose_mount(self) -> None:
        self.server.lose_mount()

    def find_mount(self) -> None:
        self.server.find_mount()


class JellyfinShelf:
    """A file under another name is another item: its id is computed from its path."""

    kind = "jellyfin"

    def __init__(self, count: int) -> None:
        self.server = FakeJellyfin(FakeClock(), {})
        self.app = self.server.app
        self.account = Account("", "api_key", jellyfin.TOKEN)
        self._names = 0
        self._away: dict[str, int] = {}
        for number in range(count):
            self.add(number)

    def marks(self) -> dict[int, str]:
        return {length_ms: item for item, length_ms in self.server.items.items()}

    def add(self, number: int) -> None:
        self._item(60_000 + number, {"Imdb": f"tt{number:07}"})

    def _item(self, length_ms: int, provider_ids: dict[str, str]) -> str:
        self._names += 1
        item = f"{self._names:032x}"
        self.server.items[item] = length_ms
        self.server.providers[item] = provider_ids
        self.server.paths[item] = f"/media/films/{self._names}.mkv"
        return item

    def rename(self, mark: int) -> str:
        old = self.marks()[mark]
        del self.server.items[old]
        return self._item(mark, self.server.providers[old])

    def delete(self, mark: int) -> None:
        del self.server.items[self.marks()[mark]]

    def lose_mount(self) -> None:
        self._away, self.server.items = self.server.items, {}

    def find_mount(self) -> None:
        self.server.items = self._away


class AudiobookshelfShelf:
    kind = "audiobookshelf"

    def __init__(self, count: int) -> None:
        self.server = FakeAudiobookshelf(FakeClock(), {})
        self.app = self.server.app
        self.account = Account("ana", "api_key", audiobookshelf.TOKEN)
        for number in range(count):
            self.add(number)

    def marks(self) -> dict[int, str]:
        server = self.server
        return {int(length * 1000): item for item, length in server.durations.items() if item not in server.missing}

    def add(self, number: int) -> None:
        self._book(f"book-{number}", 100.5 + number, f"Book {number}", f"978{number:010}")

    def _book(self, item: str, length: float, title: str, isbn: str) -> None:
        server = self.server
        server.durations[item], server.titles[item], server.isbns[item] = length, title, isbn

    def rename(self, mark: int) -> str:
        """The same id: the inode tells."""
        item = self.marks()[mark]
        self.server.paths[item] = f"/audiobooks/moved/{item}"
        return item

    def copy_and_delete(self, mark: int) -> str:
        """Another inode: another id, and what was is listed as missing."""
        server, old = self.server, self.marks()[mark]
        new = f"copy-of-{old}"
        self._book(new, server.durations[old], server.titles[old], server.isbns[old])
        server.missing.add(old)
        return new

    def delete(self, mark: int) -> None:
        self.server.missing.add(self.marks()[mark])

    def lose_mount(self) -> None:
        self.server.missing = set(self.server.durations)

    def find_mount(self) -> None:
        self.server.missing = set()

"""Each kind of server as one that is told: a fake with one item, and the same questions to all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streams.runtime.clock import FakeClock
from streams.runtime.upstreams import Account
from tests.ingest.pollers.servers import audiobookshelf, emby, jellyfin, listenbrainz, plex, subsonic

LENGTH_MS = 3_600_000


@dataclass(frozen=True)
class Target:
    """``at``, ``played``, ``plays``: how the person's playback of the item stands there; None: it can't tell.
    ``bend``: makes it keep another position than it is told, so many ms later. ``accepted``: how it says yes."""

    kind: str
    make: Callable[[FakeClock], Any]
    item: str
    user: str
    account: Account
    at: Callable[[Any], int]
    played: Callable[[Any], bool | None]
    plays: Callable[[Any], int | None]
    bend: Callable[[Any, int], None]
    accepted: bytes = b""


def _jellyfin_data(fake: jellyfin.FakeJellyfin) -> dict[str, Any]:
    return fake._data(jellyfin.ANA, "c" * 32)


def _row(fake: audiobookshelf.FakeAudiobookshelf) -> dict[str, Any]:
    return fake._row("book-1")


def _bend_by(unit: float) -> Callable[[Any, int], None]:
    def bend(fake: Any, by_ms: int) -> None:
        fake.bends = lambda position: position + by_ms * unit if position else position

    return bend


def _bend_ticks(fake: Any, by_ms: int) -> None:
    fake.bends = lambda ticks: ticks + by_ms * 10_000 if ticks else ticks


def _bend_ms(fake: Any, by_ms: int) -> None:
    fake.bends = lambda position: position + by_ms if position else position


JELLYFIN = Target(
    "jellyfin",
    lambda clock: jellyfin.FakeJellyfin(clock, {"c" * 32: LENGTH_MS}),
    "c" * 32,
    jellyfin.ANA,
    Account("", "api_key", jellyfin.TOKEN),
    at=lambda fake: int(_jellyfin_data(fake)["PlaybackPositionTicks"] // 10_000),
    played=lambda fake: bool(_jellyfin_data(fake)["Played"]),
    plays=lambda fake: int(_jellyfin_data(fake)["PlayCount"]),
    bend=_bend_ticks,
)
EMBY = Target(
    "emby",
    lambda clock: emby.FakeEmby(clock, {"417": LENGTH_MS}),
    "417",
    emby.USER,
    Account("", "api_key", emby.TOKEN),
    at=lambda fake: int(fake.of(emby.USER, "417")["PlaybackPositionTicks"] // 10_000),
    played=lambda fake: bool(fake.of(emby.USER, "417")["Played"]),
    plays=lambda fake: int(fake.of(emby.USER, "417")["PlayCount"]),
    bend=_bend_ticks,
)
PLEX = Target(
    "plex",
    lambda clock: plex.FakePlex(clock, {"9001": LENGTH_MS}),
    "9001",
    "1",
    Account("", "api_key", plex.TOKEN),
    at=lambda fake: int(fake.views.get("9001", {}).get("viewOffset", 0)),
    played=lambda fake: fake.views.get("9001", {}).get("viewCount", 0) > 0,
    plays=lambda fake: int(fake.views.get("9001", {}).get("viewCount", 0)),
    bend=_bend_ms,
)
AUDIOBOOKSHELF = Target(
    "audiobookshelf",
    lambda clock: audiobookshelf.FakeAudiobookshelf(clock, {"book-1": LENGTH_MS / 1000}),
    "book-1",
    audiobookshelf.USER,
    Account("ana", "api_key", audiobookshelf.TOKEN),
    at=lambda fake: 0 if _row(fake)["isFinished"] else round(_row(fake)["currentTime"] * 1000),
    played=lambda fake: bool(_row(fake)["isFinished"]),
    plays=lambda fake: None,
    bend=_bend_by(0.001),
)


def _subsonic(flavour: subsonic.Flavour, login: str = "token") -> Target:
    return Target(
        "subsonic",
        lambda clock: subsonic.FakeSubsonic(flavour, clock, [subsonic.Song("tr-1", "al-1", LENGTH_MS / 1000)]),
        "tr-1",
        subsonic.USER,
        Account(subsonic.USER, login, subsonic.PASSWORD),
        at=lambda fake: int(fake.stored.bookmarks.get("tr-1", {}).get("position", 0)),
        played=lambda fake: None,
        plays=lambda fake: fake.stored.plays["tr-1"].count if "tr-1" in fake.stored.plays else 0,
        bend=_bend_ms,
        accepted=b'{"subsonic-response":{"status":"ok","version":"1.16.1"}}',
    )


NAVIDROME = _subsonic(subsonic.NAVIDROME)
GONIC = _subsonic(subsonic.GONIC)
SUPYSONIC = _subsonic(subsonic.SUPYSONIC, "password")
LISTENBRAINZ = Target(
    "listenbrainz",
    lambda clock: listenbrainz.FakeListenBrainz(),
    "",
    listenbrainz.USER,
    Account(listenbrainz.USER, "api_key", listenbrainz.TOKEN),
    at=lambda fake: 0,
    played=lambda fake: None,
    plays=lambda fake: len(fake.listens),
    bend=lambda fake, by_ms: None,
)
KEEP_POSITIONS = {
    "jellyfin": JELLYFIN,
    "emby": EMBY,
    "plex": PLEX,
    "audiobookshelf": AUDIOBOOKSHELF,
    "navidrome": NAVIDROME,
    "gonic": GONIC,
}
COUNT_PLAYS = {
    "jellyfin": JELLYFIN,
    "emby": EMBY,
    "plex": PLEX,
    "navidrome": NAVIDROME,
    "gonic": GONIC,
    "listenbrainz": LISTENBRAINZ,
}
ALL = KEEP_POSITIONS | COUNT_PLAYS

"""The demo's second half: a folder of music is scanned, disturbed, scanned again; what is known of it stays known.

Everything goes the way of every other source: ``playhead source add files``, ``playhead scan``, a worker, the log, the
agent, the read model, the API.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx

from streams.cli import shelf
from streams.cli.scanning import Desk, Outcome

SOURCE: Final = "shelf"
LISTENER: Final = "ben"
_SETTLE_S: Final = 30.0
_POLL_S: Final = 0.05
_HEARD: Final[Mapping[str, int]] = {
    "The Long Tide": 12 * shelf.MINUTE + 30_000,
    "Slack Water": 100_000,
    "Lamp": 25_000,
    "Oars": 75_000,
    "Fog": 60_000,
    "Bell": 45_000,
    "Undertow": 50_000,
}
"""Titles and how far Ben is in each."""


def play(url: str, settings: Any, folder: Path, console: Any) -> None:
    """Run it, in ``folder``/shelf. Raises RuntimeError when something does not become what it must."""
    root = folder / SOURCE
    shelf.make(root)
    tokens = _add(settings, root)
    library = Library(url, *tokens)
    console.print("\nNow a folder of music and a book, scanned by a worker.\n")
    console.print(f"[bold]playhead source add files {SOURCE} --path …/{SOURCE} · playhead scan {SOURCE}[/bold]")
    first = scan(settings)
    _expect(first, "finalized")
    before = library.items()
    _show_found(library, first, console)
    listen(library, before)
    deeds = shelf.disturb(root)
    console.print(
        "Ben listens. Then somebody tidies up: folders and files are renamed, two swap their names, one is replaced, "
        f"copied, broken, deleted. [bold]playhead scan {SOURCE}[/bold]"
    )
    second = scan(settings)
    _expect(second, "finalized")
    console.print(_kept(library, before, deeds))
    aside = folder / "unplugged"
    shelf.take_away(root, aside)
    console.print(
        f"And one day the music's disk is not mounted: an empty folder is there. [bold]playhead scan {SOURCE}[/bold]"
    )
    third = scan(settings)
    _expect(third, "held")
    there = sum(item["status"] == "present" for item in library.items().values())
    gone, known = third.counts["missing"], third.counts["seen"] + third.counts["missing"]
    console.print(
        f"Held ({third.reason}): {gone} of {known} items would be missing. "
        f"Nothing was marked, {there} are still there; --confirm would say that they are really gone. "
        "The disk comes back, and once more:"
    )
    shelf.bring_back(root, aside)
    _expect(scan(settings), "finalized")
    console.print(_scans(library))


def scan(settings: Any) -> Outcome:
    """As ``playhead scan`` does."""
    with Desk(settings, SOURCE) as desk:
        return desk.follow(desk.request(full=False), quiet=True)


class Library:
    """The API, as a player and as an operator see it."""

    def __init__(self, url: str, player: str, operator: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=10)
        self._player, self._operator = player, operator

    def items(self) -> dict[str, Any]:
        """Items by media_id."""
        return {item["media"]: item for item in self._read(f"/v1/sources/{SOURCE}/items")["items"]}

    def place(self, media: str) -> str:
        """Where it lies, the artist's folder left out."""
        first = self._read(f"/v1/media/{media}")["locators"][0]
        return str(first["path"]).removeprefix(f"{shelf.MUSIC}/")

    def collections(self) -> list[Any]:
        return list(self._read(f"/v1/sources/{SOURCE}/collections")["items"])

    def scans(self) -> list[Any]:
        return list(self._read(f"/v1/sources/{SOURCE}/scans")["items"])

    def progress(self) -> dict[str, Any]:
        """Ben's, by media_id."""
        answer = self._read(f"/v1/users/{LISTENER}/progress", self._player)
        return {row["media"]: row for row in answer["items"]}

    def report(self, report: Mapping[str, Any]) -> str:
        """Its event id."""
        headers = {"Authorization": f"Bearer {self._player}"}
        answer = self._client.post("/v1/playback", json=report, headers=headers)
        answer.raise_for_status()
        return str(answer.json()["event_ids"][0])

    def decided(self, event_id: str) -> bool:
        headers = {"Authorization": f"Bearer {self._player}"}
        return self._client.get(f"/v1/events/{event_id}", headers=headers).status_code == httpx.codes.OK

    def _read(self, path: str, token: str | None = None) -> Any:
        answer = self._client.get(path, headers={"Authorization": f"Bearer {token or self._operator}"})
        answer.raise_for_status()
        return answer.json()


def listen(library: Library, items: Mapping[str, Any]) -> None:
    """Ben is somewhere in each of _HEARD. The reports say neither kind nor duration: the library knows."""
    waiting = []
    now = int(time.time() * 1000)
    for item in items.values():
        heard = _HEARD.get(item["title"])
        if heard is not None:
            common = {"user": LISTENER, "media": item["media"], "device_id": "speaker", "session_id": item["media"]}
            for number, (kind, position) in enumerate((("start", 0), ("progress", heard // 2), ("stop", heard))):
                at = now - heard + position
                waiting.append(
                    library.report(
                        {**common, "sequence": number, "kind": kind, "position_ms": position, "occurred_at": at}
                    )
                )
    until = time.monotonic() + _SETTLE_S
    for event_id in waiting:
        while not library.decided(event_id):
            if time.monotonic() > until:
                raise RuntimeError(f"no decision for report {event_id} after {_SETTLE_S:.0f} s")
            time.sleep(_POLL_S)


def _expect(outcome: Outcome, status: str) -> None:
    if outcome.status != status:
        raise RuntimeError(f"scan {outcome.scan} is {outcome.status} ({outcome.reason}), not {status}")


def _show_found(library: Library, outcome: Outcome, console: Any) -> None:
    passed = ", ".join(f"{count} {reason.replace('_', ' ')}" for reason, count in sorted(outcome.skipped.items()))
    console.print(f"Found: {outcome.counts['added']} items (passed over: {passed})")
    table = _table("", "collection", "kind", "items")
    for one in library.collections():
        if one["kind"] != "folder":
            table.add_row(one["name"], one["kind"], str(one["items_by_status"]["present"]))
    console.print(table)


def _kept(library: Library, before: Mapping[str, Any], deeds: Mapping[str, str]) -> Any:
    """What became of each item something was done to. Raises RuntimeError when one lost its id or its progress."""
    now, progress = library.items(), library.progress()
    table = _table("What kept its id and its progress", "what", "what was done", "id", "status", "where", "Ben is at")
    named = {item["title"]: media for media, item in before.items()}
    for title, done in deeds.items():
        media = named[title]
        after = now.get(media)
        if after is None or (title in _HEARD and progress.get(media, {}).get("position_ms") != _HEARD[title]):
            raise RuntimeError(f"{title} lost its id or its progress: {after} {progress.get(media)}")
        table.add_row(
            title, done, "kept", after["status"], library.place(media),
            _clock(progress[media]["position_ms"]) if media in progress else "—",
        )  # fmt: skip
    for media in now.keys() - before.keys():
        table.add_row(now[media]["title"], "the copy", "new", now[media]["status"], library.place(media), "—")
    return table


def _scans(library: Library) -> Any:
    counts = ("seen", "added", "changed", "moved", "missing")
    table = _table("All scans", "scan", "status", *counts)
    for number, one in enumerate(reversed(library.scans()), 1):
        status = one["status"] if one["held_at"] is None or one["status"] == "held" else f"held, then {one['status']}"
        table.add_row(str(number), status, *(str(one[name]) for name in counts))
    return table


def _table(title: str, *columns: str) -> Any:
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _clock(ms: int) -> str:
    return f"{ms // 60_000}:{ms // 1000 % 60:02}"


def _add(settings: Any, root: Path) -> tuple[str, str]:
    """As ``playhead source add files`` does, without watching: here a scan is asked for. A player's token and an
    operator's."""
    from streams.cli.admin import door_connection
    from streams.runtime.tokens import create_source, create_token
    from streams.runtime.trees import SourceTree, add_tree

    with door_connection(settings) as connection:
        create_source(connection, SOURCE, "files", "The shelf in the hall")
        add_tree(connection, SourceTree(SOURCE, os.fsencode(root), watch=False), None)
        return (
            create_token(connection, SOURCE, ["report", "read"], None, "demo"),
            create_token(connection, None, ["read", "operate"], None, "demo"),
        )

"""One source of files: its tree, its scans, what is read of it, and what a person has played."""

from __future__ import annotations

import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from schemas.library import ItemObserved, Locator
from streams.cli.admin import door_connection
from streams.domain.identity import media_id
from streams.domain.library.locators import text
from streams.runtime.clock import SystemClock
from streams.runtime.commands import scan_cancelled
from streams.runtime.tokens import create_source, create_token
from streams.runtime.trees import SourceTree, add_tree
from streams.upstream.files.posix import Posix
from tests.effects.scan.desk import make_old
from tests.effects.scan.media import make_mp3
from tests.integration.library.house import House
from tests.integration.library.oracle import LIVE, Item, expect_tree, folded, walked

ENDED = frozenset({"finalized", "failed", "held", "incomplete", "cancelled", "superseded"})
PERSON = "ana"
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Scan:
    """What became of a scan."""

    generation: int
    status: str
    reason: str | None
    counts: dict[str, int]
    skipped: dict[str, int]


class Library:
    """``check`` is the oracle: read models == a walk of the tree == a fold of the log, and nobody's state is lost."""

    def __init__(self, house: House, source_id: str, root: Path) -> None:
        self.house = house
        self.source_id = source_id
        self.root = root
        self.positions: dict[str, int] = {}
        root.mkdir()
        with door_connection(house.settings) as connection:
            create_source(connection, source_id, "files", source_id)
            token = create_token(connection, source_id, ["report", "read"], None, "test")
        self.move_root(root)
        self._client = house.client(token)

    def close(self) -> None:
        self._client.close()

    def move_root(self, root: Path) -> None:
        """From now on the source's files are there."""
        self.root = root
        with door_connection(self.house.settings) as connection:
            add_tree(connection, SourceTree(self.source_id, bytes(root), False), None)

    # The tree.

    def make(self, *names: str | bytes) -> None:
        """Songs, each unlike every other."""
        for name in names:
            self.song(name, os.fsdecode(name))

    def song(self, name: str | bytes, title: str, *, frames: int = 8) -> Path:
        """A song; equal titles and lengths have equal contents."""
        shown = title.encode("utf-8", "backslashreplace").decode()
        return make_mp3(self.path(name), frames=frames, title=shown, artist="Tin Kites", album="Wind")

    def path(self, name: str | bytes) -> Path:
        return self.root / os.fsdecode(name)

    def remove(self, *names: str | bytes) -> None:
        for name in names:
            self.path(name).unlink()

    def rename(self, old: str | bytes, new: str | bytes) -> None:
        self.path(new).parent.mkdir(parents=True, exist_ok=True)
        self.path(old).rename(self.path(new))

    def copy(self, old: str | bytes, new: str | bytes) -> None:
        """The same content in another inode."""
        self.path(new).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self.path(old), self.path(new))
        make_old(self.path(new))

    def when_opened(self, monkeypatch: pytest.MonkeyPatch, folder: bytes, then: Callable[[], None]) -> None:
        """Once, when a scan is about to open the folder of this name. What is raised there ends the worker."""
        opens, done = Posix.open_folder, threading.Event()

        def open_folder(posix: Posix, name: bytes, parent: int) -> int:
            if name == folder and not done.is_set():
                done.set()
                then()
            return opens(posix, name, parent)

        monkeypatch.setattr(Posix, "open_folder", open_folder)

    # Scans.

    def ask(self) -> int:
        """Ask for a scan; its generation."""
        answer = self.house.operator.post(f"/v1/sources/{self.source_id}/scans", json={})
        assert answer.status_code == 202, answer.text
        return int(answer.json()["generation"])

    def is_wanted(self, generation: int) -> bool:
        """Whether workers know that this scan was asked for."""
        wanted = self.house.query(
            "SELECT wanted_version FROM core.tasks WHERE kind = 'scan' AND key = %s", self.source_id
        )
        return wanted == [(generation,)]

    def scan(self, status: str = "finalized", reason: str | None = None) -> Scan:
        """A scan from its request to its end in the read model, which must be this one."""
        self.house.start_worker()
        return self.ended(self.ask(), status, reason)

    def ended(self, generation: int, status: str = "finalized", reason: str | None = None) -> Scan:
        """How that scan ended."""

        def over() -> bool:
            found = self.scans()
            return any(one.generation == generation and one.status in ENDED for one in found)

        self.house.wait(over, f"{self.source_id}:{generation} has ended")
        scan = self._one(generation)
        assert (scan.status, scan.reason) == (status, reason), scan
        self.wait_idle()
        return scan

    def wait_idle(self) -> None:
        """No task of this source is left, and what its last scan found is read."""

        def idle() -> bool:
            rows = self.house.query(
                "SELECT wanted_version, done_version FROM core.tasks WHERE kind = 'scan' AND key = %s", self.source_id
            )
            scans = self.scans()
            return all(
                done >= wanted and bool(scans) and scans[-1].generation >= done and scans[-1].status in ENDED
                for wanted, done in rows
            )

        self.house.wait(idle, f"the scans of {self.source_id} are done")

    def confirm(self, generation: int) -> Scan:
        """A held scan is confirmed, and comes to its end."""
        answer = self.house.operator.post(f"/v1/scans/{self.source_id}:{generation}/confirm")
        assert answer.status_code == 202, answer.text
        self.house.wait(lambda: self._one(generation).status not in ("held", "finalizing"), "it is held no more")
        return self.ended(generation)

    def cancel(self) -> None:
        """Whatever scan is the newest."""
        [(generation,)] = self.house.query(
            "SELECT wanted_version FROM core.tasks WHERE kind = 'scan' AND key = %s", self.source_id
        )
        self.house.give(scan_cancelled(self.source_id, SystemClock(), generation))

    def _one(self, generation: int) -> Scan:
        [scan] = [one for one in self.scans() if one.generation == generation]
        return scan

    def scans(self) -> list[Scan]:
        counts = "observations, seen, added, changed, moved, missing, present_before, unreadable"
        rows = self.house.query(
            f"SELECT generation, status, reason, skipped, {counts} FROM api.scans"
            " WHERE source_id = %s ORDER BY generation",
            self.source_id,
        )
        names = counts.split(", ")
        return [Scan(row[0], row[1], row[2], dict(zip(names, row[4:], strict=True)), row[3]) for row in rows]

    # What is read.

    def items(self) -> dict[str, Item]:
        rows = self.house.query(
            "SELECT i.media_id, i.status, i.readable, i.generation,"
            " ARRAY(SELECT l.path FROM model.media_locators l WHERE l.media_id = i.media_id ORDER BY l.ordinal),"
            " i.title, i.content_hash FROM api.items i WHERE i.source_id = %s",
            self.source_id,
        )
        return {row[0]: Item(row[0], row[1], row[2], row[3], tuple(row[4]), row[5], row[6]) for row in rows}

    def ids(self) -> dict[bytes, str]:
        """Of everything that is there: the media of each place."""
        return {path: item.media_id for item in self.items().values() if item.status in LIVE for path in item.paths}

    def of(self, name: str | bytes) -> Item:
        """The item that is there."""
        return self.items()[self.ids()[os.fsencode(name)]]

    def statuses(self, *media: str) -> list[str]:
        items = self.items()
        return [items[one].status for one in media]

    def tell_seen(self, *names: str | bytes) -> None:
        """A hook, or a poll, tells that these files are there."""
        now_ms = int(time.time() * 1000)
        events = []
        for name in names:
            seen, event_id = os.lstat(self.path(name)), uuid.uuid4().hex
            events.append(
                ItemObserved(
                    event_id=event_id,
                    correlation_id=event_id,
                    source_id=self.source_id,
                    received_at=now_ms,
                    how="hook",
                    locator=Locator(os.fsencode(name), seen.st_size, seen.st_mtime_ns, seen.st_dev, seen.st_ino),
                )
            )
        self.house.observe(*events, source_id=self.source_id)

    # What a person has played.

    def play(self, *names: str | bytes) -> None:
        """Somebody has played these, each to a place of its own. They are known by their first path."""
        reports = []
        for name in names or self.ids():
            path = os.fsencode(name)
            media = media_id(self.source_id, text(path))
            assert self.ids()[path] == media
            self.positions[media] = 60_000 * (2 + len(self.positions))
            reports.append(
                {
                    "event_id": f"{media}-{len(self.positions)}",
                    "user": PERSON,
                    "media": text(path),
                    "media_kind": "audiobook",
                    "kind": "progress",
                    "position_ms": self.positions[media],
                    "duration_ms": HOUR_MS,
                }
            )
        answer = self._client.post("/v1/playback", json={"reports": reports})
        assert answer.status_code == 202, answer.text
        assert answer.json()["rejected"] == []
        self.house.wait(lambda: self.progress() == self.positions, "what was played is read")

    def progress(self) -> dict[str, int]:
        """How far each media is that was played, by the id it had then, as far as that is known."""
        found = {}
        for media in self.positions:
            answer = self._client.get(f"/v1/users/{PERSON}/progress/{media}")
            if answer.status_code == 200:
                found[media] = int(answer.json()["position_ms"])
        return found

    # The oracle.

    def check(self, *, unseen: Collection[bytes] = ()) -> None:
        """``unseen``: places of items that are there, which no walk can find now."""
        items = self.items()
        expect_tree(items.values(), walked(self.root) if self.root.exists() else {}, unseen)
        of_log, merges, scans = folded(self.house.changes(self.source_id))
        assert items == of_log
        assert {one.generation: one.status for one in self.scans()} == {g: s.status for g, s in scans.items()}
        of_view = self.house.query("SELECT * FROM api.media_merges WHERE media_id = ANY(%s)", list(merges))
        assert dict(of_view) == merges
        self._check_counts(items)
        self._check_last_seen(items)
        assert self.progress() == self.positions
        for media in self.positions:
            assert merges.get(media, media) in items, "what was played is an item no more"

    def _check_counts(self, items: dict[str, Item]) -> None:
        names = ("present", "provisional", "missing", "archived", "deleted")
        [row] = self.house.query(f"SELECT {', '.join(names)} FROM api.sources WHERE source_id = %s", self.source_id)
        held = [item.status for item in items.values()]
        assert dict(zip(names, row, strict=True)) == {name: held.count(name) for name in names}

    def _check_last_seen(self, items: dict[str, Item]) -> None:
        finalized = [one.generation for one in self.scans() if one.status == "finalized"]
        newest = max(finalized, default=None)
        rows: list[tuple[Any, ...]] = self.house.query(
            "SELECT media_id, last_seen_generation FROM api.items WHERE source_id = %s", self.source_id
        )
        for media, last_seen in rows:
            item = items[media]
            if item.status == "present" and item.readable and newest is not None:
                assert last_seen >= newest
            else:
                assert last_seen == item.generation

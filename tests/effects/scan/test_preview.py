"""What a dry run says, and that it says nothing to the log."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from streams.effects.scan.preview import Preview, preview
from streams.effects.scan.servers import ServerSource
from streams.runtime.clock import FakeClock
from streams.runtime.upstreams import Account, UpstreamEntry
from tests.effects.scan.desk import Desk, make_old, make_wav
from tests.effects.scan.test_scan_servers import QUICK, served
from tests.ingest.pollers.servers.subsonic import NAVIDROME, PASSWORD, USER, FakeSubsonic, Song


def seen(desk: Desk) -> Preview:
    desk.sink.events.clear()
    found = preview("home", desk.tree(), desk.known, desk.progress)
    assert desk.sink.events == []
    return found


def test_a_preview_tells_new_changed_moved_and_gone_apart(desk: Desk) -> None:
    for number, name in enumerate(("a/same", "a/changed", "a/gone", "b/moved", "whole/gone1", "whole/gone2")):
        make_wav(desk.root / f"{name}.wav", salt=number)
    desk.scan()
    make_wav(desk.root / "a/changed.wav", 0.4, salt=1)
    (desk.root / "a/gone.wav").unlink()
    shutil.rmtree(desk.root / "whole")
    (desk.root / "c").mkdir()
    os.rename(desk.root / "b/moved.wav", desk.root / "c/there.wav")
    make_wav(desk.root / "c/new.wav", salt=77)
    found = seen(desk)
    assert found.changed.paths == [b"a/changed.wav"]
    assert found.gone.paths == [b"a/gone.wav", b"whole/gone1.wav", b"whole/gone2.wav"]
    assert found.moved.paths == [b"b/moved.wav"]
    assert found.new.paths == [b"c/new.wav"]
    assert (found.items, found.known, found.complete) == (4, 6, True)


def test_what_is_known_below_an_unreadable_or_ignored_place_is_not_gone(desk: Desk) -> None:
    for number, name in enumerate(("a/1", "a/deep/2", "b/3", "c/4")):
        make_wav(desk.root / f"{name}.wav", salt=number)
    desk.scan()
    (desk.root / ".ignore").write_text("/b/\n4.wav\n")
    opens = desk.posix.open_folder

    def open_folder(name: bytes, parent: int) -> int:
        if name == b"a":
            raise PermissionError(13, "no")
        return opens(name, parent)

    desk.posix.open_folder = open_folder  # type: ignore[method-assign]
    found = seen(desk)
    assert found.gone.count == 0
    assert found.unreadable.paths == [b"a"]
    assert found.ignored.paths == [b"b", b"c/4.wav"]


def test_a_preview_of_nothing_known_is_all_new(desk: Desk) -> None:
    make_wav(desk.root / "a.wav")
    os.link(desk.root / "a.wav", desk.root / "b.wav")
    found = seen(desk)
    assert found.new.paths == [b"a.wav", b"b.wav"]


def test_an_unchanged_tree_previews_as_nothing_to_do(desk: Desk) -> None:
    make_wav(desk.root / "a/b/c.wav")
    desk.scan()
    found = seen(desk)
    assert (found.new.count, found.changed.count, found.gone.count, found.moved.count) == (0, 0, 0, 0)


def test_a_server_is_previewed_by_paths(tmp_path: Path) -> None:
    server = FakeSubsonic(NAVIDROME, FakeClock(), [Song(f"tr-{number}", "al", 60 + number) for number in range(5)])
    desk = Desk(tmp_path)
    with served(server.app) as url:
        entry = UpstreamEntry("home", "subsonic", url, 30, True, (Account(USER, "token", PASSWORD),))
        source = ServerSource(entry, desk.clock, QUICK)
        desk.scan(source)
        server.delete("tr-1")
        server.songs["tr-9"] = Song("tr-9", "other", 99)
        found = preview("home", source, desk.known, desk.progress)
    assert (found.new.paths, found.gone.paths, found.changed.paths) == ([b"other/tr-9.mp3"], [b"al/tr-1.mp3"], [])


def test_a_young_file_is_neither_changed_nor_gone(desk: Desk) -> None:
    make_wav(desk.root / "a.wav")
    desk.scan()
    now_ns = desk.clock.now_ms() * 1_000_000
    os.utime(desk.root / "a.wav", ns=(now_ns, now_ns))
    found = seen(desk)
    assert (found.unsettled, found.changed.count, found.gone.count) == (1, 0, 0)
    make_old(desk.root / "a.wav")

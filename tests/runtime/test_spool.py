"""The spool: on disk before it is said, in order, bounded, and whole after any kill."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from streams.runtime import metrics
from streams.runtime import spool as module
from streams.runtime.errors import ConfigurationError
from streams.runtime.spool import ROW_BYTES, Entry, Kept, Spool, SpoolAway, forget

T = TypeVar("T")
ALL: dict[str, int] = {"records_max": 10_000, "per_user_max": 10_000, "bytes_max": 2**30}


def entries(*texts: str, user: str = "ana", source: str = "home") -> list[Entry]:
    return [Entry(source, user, text.encode()) for text in texts]


def texts(kept: list[Kept]) -> list[str]:
    return [one.entry.data.decode() for one in kept]


def run(root: Path, scene: Callable[[Spool], Awaitable[T]], **limits: int) -> T:
    async def inside() -> T:
        sizes = {"bytes_max": 2**20, "records_max": 1_000} | limits
        async with Spool(root, **sizes) as spool:
            return await scene(spool)

    return asyncio.run(inside())


def test_what_was_put_comes_out_in_order_and_survives_the_process(tmp_path: Path) -> None:
    async def fill(spool: Spool) -> None:
        await spool.put(entries("1", "2"))
        await spool.put(entries("3", user="ben"))
        assert (spool.records, spool.bytes) == (3, 3 + 3 * ROW_BYTES)

    async def look(spool: Spool) -> tuple[list[str], bool, bool, bool]:
        assert spool.waiting.is_set()
        found = await spool.oldest(**ALL)
        return texts(found), spool.holds("home", "ana"), spool.holds("home", "ben"), spool.holds("jelly", "ana")

    run(tmp_path, fill)
    assert run(tmp_path, look) == (["1", "2", "3"], True, True, False)
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_done_is_gone_and_its_user_free_again(tmp_path: Path) -> None:
    async def scene(spool: Spool) -> None:
        await spool.put(entries("1", "2"))
        first = await spool.oldest(records_max=1, per_user_max=9, bytes_max=99)
        await spool.done(first)
        assert spool.holds("home", "ana")
        await spool.done(await spool.oldest(**ALL))
        assert not spool.holds("home", "ana")
        assert (spool.records, spool.bytes) == (0, 0)
        assert await spool.oldest(**ALL) == []
        assert not spool.waiting.is_set()

    run(tmp_path, scene)
    assert run(tmp_path, lambda spool: spool.oldest(**ALL)) == []


def test_a_piece_to_drain_keeps_to_all_limits_and_is_never_empty(tmp_path: Path) -> None:
    async def scene(spool: Spool) -> list[list[str]]:
        await spool.put(entries("aaaa", "bb") + entries("c", user="ben") + entries("d", "e"))
        limits = ((9, 9, 99), (2, 9, 99), (9, 2, 99), (9, 9, 6), (9, 9, 1))
        return [
            texts(await spool.oldest(records_max=records, per_user_max=users, bytes_max=size))
            for records, users, size in limits
        ]

    assert run(tmp_path, scene) == [
        ["aaaa", "bb", "c", "d", "e"],
        ["aaaa", "bb"],
        ["aaaa", "bb", "c"],
        ["aaaa", "bb"],
        ["aaaa"],
    ]


@pytest.mark.parametrize("limits", [{"records_max": 2}, {"bytes_max": 2 * (ROW_BYTES + 1)}, {"records_max": 0}])
def test_a_full_spool_takes_nothing_and_has_room_again_when_drained(tmp_path: Path, limits: dict[str, int]) -> None:
    async def scene(spool: Spool) -> None:
        if limits.get("records_max") != 0:
            await spool.put(entries("1", "2"))
        with pytest.raises(SpoolAway) as refused:
            await spool.put(entries("3", user="ben"))
        assert refused.value.retry_after_s >= 1
        assert not spool.holds("home", "ben")
        if limits.get("records_max") != 0:
            await spool.done(await spool.oldest(**ALL))
            await spool.put(entries("3"))

    run(tmp_path, scene, **limits)


def test_many_putting_at_once_share_flushes_and_all_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[int] = []
    transaction = Spool._transaction

    def counted(self: Spool, connection: sqlite3.Connection, group: list[Any]) -> None:
        groups.append(len(group))
        transaction(self, connection, group)

    monkeypatch.setattr(Spool, "_transaction", counted)

    async def scene(spool: Spool) -> list[str]:
        groups.clear()
        await asyncio.gather(*(spool.put(entries(str(n), user=f"u{n % 7}")) for n in range(400)))
        flushes = len(groups)
        assert flushes < 200
        return texts(await spool.oldest(**ALL))

    assert run(tmp_path, scene) == [str(n) for n in range(400)]


def test_a_full_disk_refuses_and_the_spool_goes_on_when_there_is_room(tmp_path: Path) -> None:
    def pages(count: int) -> Callable[[sqlite3.Connection], Any]:
        return lambda connection: connection.execute(f"PRAGMA max_page_count={count}").fetchall()

    async def scene(spool: Spool) -> list[str]:
        await spool.put(entries("1"))
        await spool._run(pages(4))  # SQLite then says SQLITE_FULL, as it does for ENOSPC
        with pytest.raises(SpoolAway, match="SQLITE_FULL"):
            await spool.put(entries("x" * 100_000, user="ben"))
        assert not spool.holds("home", "ben")
        assert spool.records == 1
        await spool._run(pages(100_000))
        await spool.put(entries("2", user="ben"))
        return texts(await spool.oldest(**ALL))

    assert run(tmp_path, scene) == ["1", "2"]


def test_held_entries_wait_aside_and_come_first_when_released(tmp_path: Path) -> None:
    async def scene(spool: Spool) -> None:
        await spool.put(entries("1") + entries("2", user="ben"))
        first = await spool.oldest(records_max=1, per_user_max=9, bytes_max=99)
        await spool.hold(first, "unknown_source")
        assert texts(await spool.oldest(**ALL)) == ["2"]
        assert spool.holds("home", "ana")
        await spool.done(await spool.oldest(**ALL))
        assert await spool.oldest(**ALL) == []
        assert not spool.waiting.is_set()
        await spool.release()
        assert spool.waiting.is_set()
        assert texts(await spool.oldest(**ALL)) == ["1"]

    run(tmp_path, scene)


def test_nobody_but_the_owner_may_read_it(tmp_path: Path) -> None:
    async def scene(spool: Spool) -> None:
        await spool.put(entries("1"))
        for path in root.rglob("*"):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path

    root = tmp_path / "spool"
    run(root, scene)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_two_processes_never_share_a_file_and_the_living_adopt_what_the_dead_left(tmp_path: Path) -> None:
    async def scene() -> list[str]:
        async with Spool(tmp_path, bytes_max=2**20, records_max=100) as one:
            async with Spool(tmp_path, bytes_max=2**20, records_max=100) as two:
                assert len(list(tmp_path.iterdir())) == 2
                await one.put(entries("one"))
                await two.put(entries("two", user="ben"))
                assert await one.adopt() == 0
            assert await one.adopt() == 1
            assert len(list(tmp_path.iterdir())) == 1
            assert one.holds("home", "ben")
            assert await one.adopt() == 0
            return texts(await one.oldest(**ALL))

    assert asyncio.run(scene()) == ["one", "two"]


def test_a_process_that_starts_adopts_all_that_nobody_owns(tmp_path: Path) -> None:
    async def several() -> None:
        async with (
            Spool(tmp_path, bytes_max=2**20, records_max=9) as one,
            Spool(tmp_path, bytes_max=2**20, records_max=9) as two,
            Spool(tmp_path, bytes_max=2**20, records_max=9) as three,
        ):
            for number, spool in enumerate((one, two, three)):
                await spool.put(entries(str(number)))

    asyncio.run(several())
    found = run(tmp_path, lambda spool: spool.oldest(**ALL))
    assert sorted(texts(found)) == ["0", "1", "2"]
    assert len(list(tmp_path.iterdir())) == 1


def test_adopting_onto_a_full_disk_leaves_the_orphan_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with Spool(tmp_path, bytes_max=2**20, records_max=100) as one:
            async with Spool(tmp_path, bytes_max=2**20, records_max=100) as two:
                await two.put(entries("two"))
            commit = Spool._transaction

            def refusing(self: Spool, connection: sqlite3.Connection, group: list[Any]) -> None:
                def fail(_: sqlite3.Connection) -> None:
                    raise sqlite3.OperationalError("database or disk is full")

                commit(self, connection, [*group, (fail, asyncio.Future(loop=loop))])

            loop = asyncio.get_running_loop()
            with monkeypatch.context() as patch:
                patch.setattr(Spool, "_transaction", refusing)
                with pytest.raises(SpoolAway):
                    await one.adopt()
            assert len(list(tmp_path.iterdir())) == 2
            assert await one.adopt() == 1

    asyncio.run(scene())


CHILD = """
import asyncio, os, sys
from pathlib import Path
from streams.runtime.spool import Entry, Spool

async def main():
    async with Spool(Path(sys.argv[1]), bytes_max=2**30, records_max=10**6) as spool:
        number = 0
        while True:
            await spool.put([Entry("home", "ana", str(number).encode())])
            os.write(1, f"{number}\\n".encode())
            number += 1

asyncio.run(main())
"""


def test_killed_while_it_writes_everything_it_acknowledged_is_there_in_order(tmp_path: Path) -> None:
    acknowledged = -1
    for count in (1, 40, 200):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(count):
            acknowledged = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, child.stdout.read().split())])
        child.stdout.close()
        child.wait()
        found = run(tmp_path, lambda spool: spool.oldest(**ALL), records_max=10**6, bytes_max=2**30)
        numbers = [int(text) for text in texts(found)]
        # One more than acknowledged may be there: its answer was on its way.
        assert numbers in (list(range(acknowledged + 1)), list(range(acknowledged + 2)))
        run(tmp_path, lambda spool: spool.done(found))  # noqa: B023 - run at once


def test_a_torn_end_is_noticed_and_all_before_it_is_there(tmp_path: Path) -> None:
    copies: list[Path] = []

    async def scene(spool: Spool) -> None:
        await spool.put(entries("1"))
        await spool.put(entries("2"))
        whole = next((tmp_path / "live").iterdir())
        size = (whole / "spool.db-wal").stat().st_size
        await spool.put(entries("3", "x" * 5_000))
        for name, damage in (("cut", "cut"), ("flip", "flip"), ("zeros", "zeros")):
            copy = tmp_path / name / whole.name
            shutil.copytree(whole, copy)
            copies.append(copy.parent)
            (copy / "spool.db-shm").unlink()
            wal = bytearray((copy / "spool.db-wal").read_bytes())
            match damage:
                case "cut":
                    del wal[size + 1_000 :]
                case "flip":
                    wal[size + 100] ^= 1
                case _:
                    wal[size + 500 :] = bytes(len(wal) - size - 500)
            (copy / "spool.db-wal").write_bytes(wal)

    run(tmp_path / "live", scene)
    assert [texts(run(copy, lambda spool: spool.oldest(**ALL))) for copy in copies] == [["1", "2"]] * 3


def test_a_file_that_cannot_be_read_is_put_aside_and_the_door_goes_on(tmp_path: Path) -> None:
    run(tmp_path, lambda spool: spool.put(entries("1")))
    [folder] = tmp_path.iterdir()
    (folder / "spool.db").write_bytes(b"not a database" * 1_000)
    for name in ("spool.db-wal", "spool.db-shm"):
        (folder / name).unlink(missing_ok=True)
    run(tmp_path, lambda spool: spool.put(entries("2")))
    assert (tmp_path / f"{folder.name}.damaged" / "spool.db").exists()
    assert texts(run(tmp_path, lambda spool: spool.oldest(**ALL))) == ["2"]


def test_an_emptied_spool_keeps_nothing_of_what_was_in_it(tmp_path: Path) -> None:
    async def scene(spool: Spool) -> None:
        await spool.put(entries(*("canary" * 100 for _ in range(500)), user="canary-person"))
        await spool.done(await spool.oldest(**ALL))
        left = b"".join(path.read_bytes() for path in tmp_path.rglob("spool.db*"))
        assert b"canary" not in left
        assert sum(path.stat().st_size for path in tmp_path.rglob("spool.db*")) < 200_000

    run(tmp_path, scene)


def test_forgetting_a_user_finds_them_in_every_processs_spool(tmp_path: Path) -> None:
    async def scene() -> None:
        async with (
            Spool(tmp_path, bytes_max=2**20, records_max=100) as one,
            Spool(tmp_path, bytes_max=2**20, records_max=100) as two,
        ):
            await one.put(entries("1") + entries("2", user="canary"))
            await two.put(entries("3", user="canary") + entries("4", user="canary", source="jelly"))
            assert await asyncio.to_thread(forget, tmp_path, "home", "canary") == 2
            assert texts(await one.oldest(**ALL)) == ["1"]
            await one.done(await one.oldest(**ALL))
            assert await one.oldest(**ALL) == []
            assert not one.holds("home", "canary")
            assert texts(await two.oldest(**ALL)) == ["4"]

    asyncio.run(scene())


def test_a_caller_that_goes_away_leaves_a_true_count(tmp_path: Path) -> None:
    async def scene(spool: Spool) -> None:
        task = asyncio.create_task(spool.put(entries("1")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert texts(await spool.oldest(**ALL)) == ["1"]
        assert (spool.records, spool.holds("home", "ana")) == (1, True)

    run(tmp_path, scene)


def test_the_alarm_is_one_line_and_one_more_when_it_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Log:
        def error(self, text: str, **_: object) -> None:
            said.append(text)

        info = error

    monkeypatch.setattr(module, "_log", Log())

    async def scene(spool: Spool) -> None:
        for number in range(10):
            await spool.put(entries(str(number)))
        assert metrics.SPOOL_FULL._value.get() == 1.0
        await spool.done(await spool.oldest(**ALL))

    run(tmp_path, scene, records_max=10)
    assert said == ["the spool is nearly full", "the spool has room again"]


def test_a_root_that_cannot_be_made_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="PLAYHEAD_STATE_DIR"):
        run(tmp_path / "file" / "spool", lambda spool: spool.put([]))

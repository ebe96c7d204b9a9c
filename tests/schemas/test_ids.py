"""Ids kept on our side: durable, merged between processes, never changing their meaning, safe to crash in."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from schemas.errors import UnknownSchemaId
from schemas.ids import ID_MAX, RegistryMismatch, SchemaIds
from schemas.versions import newest, versions

REPORTED = newest("PlaybackReported")
DECIDED = newest("PlaybackDecided")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a state folder" / "schema-ids.json"


def test_without_a_registry_every_event_is_written_with_its_pinned_id() -> None:
    ids = SchemaIds()
    for schema in versions():
        assert ids.id_for(schema.event) == newest(schema.event).pinned_id
        assert ids.writer(schema.pinned_id) is schema


def test_a_learned_id_is_written_and_read_and_the_pinned_one_still_read(path: Path) -> None:
    ids = SchemaIds(path)
    ids.learn(7, REPORTED.fingerprint)
    assert ids.id_for("PlaybackReported") == 7
    assert ids.writer(7) is REPORTED
    assert ids.writer(REPORTED.pinned_id) is REPORTED
    with pytest.raises(UnknownSchemaId):
        ids.writer(8)


def test_a_learned_id_is_known_after_a_restart(path: Path) -> None:
    SchemaIds(path).learn(7, REPORTED.fingerprint)
    again = SchemaIds(path)
    assert again.learned() == {7: REPORTED.fingerprint}
    assert again.id_for("PlaybackReported") == 7


def test_an_id_with_another_meaning_is_refused_and_nothing_is_kept_of_it(path: Path) -> None:
    ids = SchemaIds(path)
    ids.learn(7, REPORTED.fingerprint)
    with pytest.raises(RegistryMismatch, match="replaced or restored"):
        ids.learn(7, DECIDED.fingerprint)
    assert ids.learned() == {7: REPORTED.fingerprint}
    assert json.loads(path.read_text()) == {"7": REPORTED.fingerprint}


def test_a_contradiction_another_process_wrote_is_refused(path: Path) -> None:
    ids = SchemaIds(path)
    SchemaIds(path).learn(7, REPORTED.fingerprint)
    with pytest.raises(RegistryMismatch):
        ids.learn(7, DECIDED.fingerprint)
    assert json.loads(path.read_text()) == {"7": REPORTED.fingerprint}


def test_a_pinned_id_cannot_be_given_another_meaning(path: Path) -> None:
    ids = SchemaIds(path)
    with pytest.raises(RegistryMismatch):
        ids.learn(REPORTED.pinned_id, DECIDED.fingerprint)
    assert ids.writer(REPORTED.pinned_id) is REPORTED


@pytest.mark.parametrize("schema_id", [0, -1, ID_MAX + 1, True, "7", None])
def test_what_is_no_id_is_refused(schema_id: int, path: Path) -> None:
    ids = SchemaIds(path)
    with pytest.raises(RegistryMismatch, match="no schema id"):
        ids.learn(schema_id, REPORTED.fingerprint)
    assert ids.learned() == {}
    assert not path.exists()


def test_an_id_of_a_schema_we_do_not_have_is_remembered_and_not_read(path: Path) -> None:
    SchemaIds(path).learn(9, "f" * 64)
    again = SchemaIds(path)
    assert again.learned() == {9: "f" * 64}
    with pytest.raises(UnknownSchemaId):
        again.writer(9)


def test_two_that_share_a_file_take_in_each_others_ids(path: Path) -> None:
    one, other = SchemaIds(path), SchemaIds(path)
    one.learn(7, REPORTED.fingerprint)
    other.learn(8, DECIDED.fingerprint)
    assert other.learned() == {7: REPORTED.fingerprint, 8: DECIDED.fingerprint}
    one.reload()
    assert one.learned() == other.learned() == SchemaIds(path).learned()


def test_threads_learning_at_once_lose_nothing(path: Path) -> None:
    ids = SchemaIds(path)
    threads = [threading.Thread(target=ids.learn, args=(100 + i, f"{i:064x}")) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids.learned()) == len(SchemaIds(path).learned()) == 16


def _learn_many(path: Path, first: int, together: Barrier) -> None:
    ids = SchemaIds(path)
    together.wait(60)
    for schema_id in range(first, first + 60):
        ids.learn(schema_id, f"{schema_id:064x}")


def test_processes_learning_at_once_lose_nothing(path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(3)
    processes = [spawn.Process(target=_learn_many, args=(path, first, together)) for first in (100, 200, 300)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert len(SchemaIds(path).learned()) == 180


def _learn_for_ever(path: Path) -> None:
    ids = SchemaIds(path)
    for schema_id in range(1, 1_000_000):
        ids.learn(schema_id, f"{schema_id:064x}")


def test_a_process_killed_while_it_learns_leaves_a_whole_file_and_no_lock(path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_learn_for_ever, args=(path,))
    process.start()
    seen = -1
    for wanted in (3, 20, 60):
        while seen < wanted:
            assert process.is_alive()
            seen = len(SchemaIds(path).learned())
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join(30)
    survivors = SchemaIds(path)
    known = len(survivors.learned())
    assert known >= 60
    survivors.learn(2_000_000, REPORTED.fingerprint)
    assert len(SchemaIds(path).learned()) == known + 1


def test_a_write_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = SchemaIds(path)
    ids.learn(7, REPORTED.fingerprint)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            ids.learn(8, DECIDED.fingerprint)
    assert ids.learned() == {7: REPORTED.fingerprint}
    assert ids.id_for("PlaybackDecided") == DECIDED.pinned_id
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["schema-ids.json", "schema-ids.json.lock"]
    ids.learn(8, DECIDED.fingerprint)
    assert SchemaIds(path).learned() == ids.learned()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": "y"}', "null", '{"7": "a"'])
def test_a_damaged_file_is_refused_with_advice(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(RegistryMismatch, match="damaged"):
        SchemaIds(path)

"""The file of a backup: whole or not there, for its owner only, and every damage is noticed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections.backup.archive import MANIFEST, Manifest, SavedOffset, TableCopy, verified, written
from streams.runtime.errors import Permanent

TEXT = (b"home\tjellyfin\n" * 200, b"flat\t\\N\n")


def make(path: Path) -> Manifest:
    with written(path) as archive:
        rows, digest = archive.table("sources", iter(TEXT))
        manifest = Manifest(
            made_at="2026-11-30T00:00:00.000Z",
            revision="0012",
            key_check="k",
            model_epoch=3,
            tables=(TableCopy("sources", ("source_id", "kind"), rows, digest),),
            offsets=(SavedOffset("tasks", "t", 0, "id", 1, 5, {}),),
        )
        archive.manifest(manifest)
    return manifest


def test_what_was_written_is_read_again_and_only_its_owner_may(tmp_path: Path) -> None:
    path = tmp_path / "deeper" / "b.zip"
    manifest = make(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with verified(path) as reader:
        assert reader.manifest == manifest
        assert manifest.tables[0].rows == 201
        assert b"".join(reader.table(manifest.tables[0])) == b"".join(TEXT)
    assert [one.name for one in path.parent.iterdir()] == ["b.zip"]


def test_a_backup_that_fails_leaves_the_one_before_it_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    make(path)
    before = path.read_bytes()

    def pieces() -> Iterator[bytes]:
        yield TEXT[0]
        raise RuntimeError("away")

    with pytest.raises(RuntimeError), written(path) as archive:
        archive.table("sources", pieces())
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_any_byte_that_is_another_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    make(path)
    good = path.read_bytes()
    unnoticed = []
    for place in range(0, len(good), 3):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :])
        try:
            with verified(path) as reader:
                text = b"".join(reader.table(reader.manifest.tables[0]))
        except Permanent:
            continue
        # Dates and attributes of a zip mean nothing to us: what is read must be what was written all the same.
        if text != b"".join(TEXT) or reader.manifest.model_epoch != 3:
            unnoticed.append(place)
    assert unnoticed == []


@pytest.mark.parametrize("cut", [0, 1, 20, -1])
def test_a_file_that_was_cut_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "b.zip"
    make(path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(Permanent, match="no backup of Playhead, or damaged"), verified(path):
        pass


def test_rows_that_were_changed_with_a_right_zip_around_them_are_noticed(tmp_path: Path) -> None:
    path, changed = tmp_path / "b.zip", tmp_path / "c.zip"
    make(path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
        new.writestr("core/sources.copy", b"other\tplex\n")
        new.writestr(MANIFEST, old.read(MANIFEST))
    with pytest.raises(Permanent, match="sources is not what was written"), verified(changed):
        pass


def test_a_newer_format_says_upgrade_and_a_missing_file_says_so(tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MANIFEST, json.dumps({"format": 2}))
    with pytest.raises(Permanent, match="upgrade"), verified(path):
        pass
    with pytest.raises(Permanent, match="can't be read"), verified(tmp_path / "none.zip"):
        pass

"""What the content hash sees."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from streams.upstream.files.reading.content import END_BYTES, content_hash

SIZE = 4 * END_BYTES


def hashed(path: Path) -> str:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return content_hash(descriptor)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("at", "seen"), [(0, True), (END_BYTES - 1, True), (END_BYTES, False), (-END_BYTES, True), (-1, True)]
)
def test_a_changed_byte_is_seen_at_either_end(tmp_path: Path, at: int, seen: bool) -> None:
    content = bytearray(SIZE)
    (tmp_path / "a").write_bytes(content)
    content[at] = 1
    (tmp_path / "b").write_bytes(content)
    assert (hashed(tmp_path / "a") != hashed(tmp_path / "b")) is seen


@pytest.mark.parametrize("size", [0, 1, END_BYTES, END_BYTES + 1, SIZE])
def test_another_size_is_another_content(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(bytes(size))
    (tmp_path / "b").write_bytes(bytes(size + 1))
    assert hashed(tmp_path / "a") != hashed(tmp_path / "b")


def test_the_hash_of_known_bytes_stays_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(range(256)) * 1_024)
    assert hashed(tmp_path / "a") == "84ea68b89f3236554372c8c2f17b43e7"

"""A large folder tree of audio files that takes little room: a true head with tags, and nothing behind it."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

from streams.cli import sounds

ALBUM = 100
ALBUMS = 10
"""Of one artist."""
OLD_S = 86_400
_MS = 240_000
_MP3_BYTES, _FLAC_BYTES = 9_600_000, 24_000_000


def make(root: Path, files: int) -> None:
    """``files`` files, 100 in a folder, ten folders in a folder: MP3s, and every tenth a FLAC or a WAV."""
    for number, path in enumerate(paths(root, files)):
        if number % ALBUM == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
        write(path, number)


def paths(root: Path, files: int) -> Iterator[Path]:
    for number in range(files):
        album = number // ALBUM
        name = f"{number % ALBUM + 1:02} Song {number}{_suffix(number)}"
        yield root / f"Artist {album // ALBUMS:03}" / f"Album {album % ALBUMS}" / name


def write(path: Path, number: int, *, edition: int = 0) -> None:
    """One file; another ``edition`` is another content, and newer."""
    album = number // ALBUM
    tags = {
        "title": f"Song {number}" + (f" (edition {edition})" if edition else ""),
        "artist": f"Artist {album // ALBUMS:03}",
        "album": f"Album {album % ALBUMS}",
        "track": str(number % ALBUM + 1),
        "year": str(1960 + album % 60),
    }
    head, size = {".mp3": _mp3, ".flac": _flac, ".wav": _wav}[path.suffix](tags)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(handle, head)
        os.ftruncate(handle, size + number % 1_000)
    finally:
        os.close(handle)
    then = path.parent.stat().st_ctime - OLD_S + edition
    os.utime(path, (then, then))


def _suffix(number: int) -> str:
    return {3: ".flac", 13: ".wav"}.get(number % 20, ".mp3")


def _mp3(tags: dict[str, str]) -> tuple[bytes, int]:
    """With a Xing header, which says how long it is."""
    frames = int(_MS / sounds.FRAME_MS)
    xing = b"Xing" + struct.pack(">III", 3, frames, _MP3_BYTES)
    # 128 kbit/s, mono: 417 bytes a frame, the header after 17 of side information.
    return sounds.id3(tags) + bytes.fromhex("fffb90c4") + bytes(17) + xing + bytes(417 - 21 - len(xing)), _MP3_BYTES


def _flac(tags: dict[str, str]) -> tuple[bytes, int]:
    samples = 44_100 * _MS // 1000
    # 20 bits of rate, 3 of channels - 1, 5 of bits - 1, 36 of samples (RFC 9639, 8.2).
    packed = (44_100 << 44) | (1 << 41) | (15 << 36) | samples
    info = struct.pack(">HH", 4096, 4096) + bytes(6) + packed.to_bytes(8, "big") + bytes(16)
    names = {"track": "TRACKNUMBER", "year": "DATE"}
    texts = [f"{names.get(name, name.upper())}={text}".encode() for name, text in tags.items()]
    comment = struct.pack("<I", 5) + b"bench" + struct.pack("<I", len(texts))
    comment += b"".join(struct.pack("<I", len(text)) + text for text in texts)
    blocks = struct.pack(">I", len(info)) + info + struct.pack(">I", 0x84 << 24 | len(comment)) + comment
    return b"fLaC" + blocks, _FLAC_BYTES


def _wav(tags: dict[str, str]) -> tuple[bytes, int]:
    whole = sounds.wav(0, 400, {name: text for name, text in tags.items() if name != "albumartist"})
    data = _MP3_BYTES - len(whole)
    head = bytearray(whole)
    head[4:8] = struct.pack("<I", _MP3_BYTES - 8)
    head[-4:] = struct.pack("<I", data)
    return bytes(head), _MP3_BYTES

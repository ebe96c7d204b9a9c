"""Small real media files with tags, made here."""

from __future__ import annotations

import struct
from pathlib import Path

from mutagen.id3 import ID3, TALB, TCON, TDRC, TIT2, TPE1, TPE2, TPOS, TRCK, TXXX, UFID

from tests.effects.scan.desk import make_old

_FRAME = bytes.fromhex("fffb9000") + bytes(413)
"""MPEG 1 layer III, 128 kbit/s, 44.1 kHz: 26.1 ms."""
TEXT_FRAMES = {"title": TIT2, "artist": TPE1, "albumartist": TPE2, "album": TALB, "genre": TCON, "year": TDRC}
NUMBER_FRAMES = {"track": TRCK, "disc": TPOS}


def make_mp3(path: Path, *, frames: int = 40, more: dict[str, str] | None = None, **tags: str | list[str]) -> Path:
    """``more``: user-defined texts by their description; "ufid": a MusicBrainz recording's id."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_FRAME * frames)
    found = ID3()
    for name, value in tags.items():
        frame = (TEXT_FRAMES | NUMBER_FRAMES)[name]
        found.add(frame(3, value if isinstance(value, list) else [value]))
    for description, text in (more or {}).items():
        if description == "ufid":
            found.add(UFID("http://musicbrainz.org", text.encode()))
        else:
            found.add(TXXX(3, description, [text]))
    found.save(path)
    make_old(path)
    return path


def make_avi(path: Path) -> Path:
    """One second of nothing, 25 pictures of 16 x 16, uncompressed; all that MediaInfo needs to call it a video."""
    header = struct.pack("<14I", 40_000, 0, 0, 0x10, 25, 0, 1, 0, 16, 16, 0, 0, 0, 0)
    stream = struct.pack("<4s4sIHHIIIIIIIIHHHH", b"vids", b"DIB ", 0, 0, 0, 0, 1, 25, 0, 25, 768, 0, 0, 0, 0, 16, 16)
    picture = struct.pack("<IiiHHIIiiII", 40, 16, 16, 1, 24, 0, 768, 0, 0, 0, 0)
    streams = _list(b"strl", _chunk(b"strh", stream) + _chunk(b"strf", picture))
    headers = _list(b"hdrl", _chunk(b"avih", header) + streams)
    movie = _list(b"movi", _chunk(b"00db", bytes(768)) * 25)
    path.parent.mkdir(parents=True, exist_ok=True)
    body = b"AVI " + headers + movie
    path.write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    make_old(path)
    return path


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content


def _list(name: bytes, content: bytes) -> bytes:
    return _chunk(b"LIST", name + content)

"""Small real audio files with tags, written byte by byte: what the demo's shelf is made of.

MP3: an ID3v2.3 tag (id3.org/id3v2.3.0) and frames of silence. WAV: RIFF with LIST/INFO texts and a tone, as the
Multimedia Programming Interface 1.0 has them. A player plays both.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Final

FRAME_MS: Final = 1152 * 1000 / 44_100
"""MPEG 1 layer III at 44.1 kHz: 1,152 samples a frame."""
_FRAME: Final = bytes.fromhex("fffb10c4") + bytes(100)
"""32 kbit/s, mono, without padding: 104 bytes. Nothing but zeros decodes to silence."""
_ID3: Final = {
    "title": "TIT2", "artist": "TPE1", "albumartist": "TPE2", "album": "TALB", "track": "TRCK", "genre": "TCON",
    "year": "TYER",
}  # fmt: skip
_INFO: Final = {"title": "INAM", "artist": "IART", "album": "IPRD", "track": "ITRK", "genre": "IGNR", "year": "ICRD"}
_WAV_HZ: Final = 8_000


def mp3(ms: int, tags: Mapping[str, str]) -> bytes:
    """Silence of at least ``ms``, in whole frames. Raises KeyError for a tag it does not know."""
    return id3(tags) + _FRAME * math.ceil(ms / FRAME_MS)


def id3(tags: Mapping[str, str]) -> bytes:
    """An ID3v2.3 tag with text frames in UTF-16."""
    frames = b"".join(_id3_text(_ID3[name], text) for name, text in tags.items())
    size = len(frames)
    # Its size has seven bits a byte.
    return b"ID3\x03\x00\x00" + bytes(size >> shift & 0x7F for shift in (21, 14, 7, 0)) + frames


def wav(ms: int, tone_hz: int, tags: Mapping[str, str]) -> bytes:
    """A tone, 8 kHz, 8 bit, one channel; ``tone_hz`` a divisor of 8,000. Raises KeyError for a tag it does not know."""
    period = _WAV_HZ // tone_hz
    wave = bytes(128 + round(40 * math.sin(2 * math.pi * n / period)) for n in range(period))
    samples = _WAV_HZ * ms // 1000
    sound = (wave * (samples // period + 1))[:samples]
    info = b"INFO" + b"".join(_riff(_INFO[name], text.encode() + b"\0") for name, text in tags.items())
    form = struct.pack("<HHIIHH", 1, 1, _WAV_HZ, _WAV_HZ, 1, 8)
    body = b"WAVE" + _riff("fmt ", form) + _riff("LIST", info) + _riff("data", sound)
    return _riff("RIFF", body)


def _id3_text(frame: str, text: str) -> bytes:
    content = b"\x01" + text.encode("utf-16")
    return frame.encode() + struct.pack(">IH", len(content), 0) + content


def _riff(name: str, content: bytes) -> bytes:
    return name.encode() + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)

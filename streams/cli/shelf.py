"""The demo's shelf: a small folder of real audio, and what a house does to it between two scans.

All names are invented. Files are dated an hour back: what changed a moment ago counts as still being written.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streams.cli import sounds

MINUTE: Final = 60_000
OLD_S: Final = 3_600

MUSIC: Final = "Music/Tin Harbour"
BOOK: Final = "Books/Mara Quill/The Long Tide.mp3"
_LOW_TIDE: Final = ("Slack Water", "Ebb", "Salt Road", "Gulls", "Undertow")
_NIGHT_BOATS: Final = ("Lamp", "Oars", "Fog", "Bell", "Rope", "Landing")
_TONES: Final = (250, 320, 400, 500, 800, 1_000)


def make(root: Path) -> None:
    """Twelve items, and what no scan should take for one."""
    for number, title in enumerate(_LOW_TIDE, 1):
        sound = sounds.mp3(3 * MINUTE, _tags(title, "Low Tide", number, "1998"))
        _write(root / MUSIC / "Low Tide" / f"{number:02} {title}.mp3", sound)
    for number, title in enumerate(_NIGHT_BOATS, 1):
        sound = sounds.wav(2 * MINUTE, _TONES[number - 1], _tags(title, "Night Boats", number, "2004"))
        _write(root / MUSIC / "Night Boats" / f"{number:02} {title}.wav", sound)
    book = {"title": "The Long Tide", "artist": "Mara Quill", "album": "The Long Tide", "genre": "Audiobook"}
    _write(root / BOOK, sounds.mp3(20 * MINUTE, book))
    _write(root / MUSIC / "Low Tide" / "._01 Slack Water.mp3", b"\0\5\26\7")
    _write(root / MUSIC / "Low Tide" / "cover.jpg", b"\xff\xd8\xff\xd9")
    _write(root / MUSIC / "Night Boats" / "07 Unfinished.wav.part", b"RIFF")
    _write(root / MUSIC / "Night Boats" / "08 Empty.wav", b"")


def disturb(root: Path) -> Mapping[str, str]:
    """What was done, by the title it was done to."""
    tide, boats = root / MUSIC / "Low Tide", root / MUSIC / "Night Boats"
    (root / "Audiobooks").mkdir()
    (root / BOOK).rename(root / "Audiobooks" / "Long Tide, The.mp3")
    shutil.rmtree(root / "Books")
    (tide / "05 Undertow.mp3").unlink()
    tide.rename(tide.with_name("1998 Low Tide"))
    _swap(boats / "01 Lamp.wav", boats / "02 Oars.wav")
    better = sounds.wav(2 * MINUTE + 500, 2_000, _tags("Fog", "Night Boats", 3, "2004"))
    _write(boats / "03 Fog.wav", better)
    _write(boats / "04 Bell.wav", b"no sound any more" * 100)
    (root / "Mix").mkdir()
    shutil.copyfile(boats / "06 Landing.wav", root / "Mix" / "Landing.wav")
    _old(root / "Mix" / "Landing.wav")
    return {
        "The Long Tide": "moved to another folder, with another name",
        "Slack Water": "its whole folder was renamed",
        "Lamp": "swapped names with Oars",
        "Oars": "swapped names with Lamp",
        "Fog": "replaced by a better file",
        "Bell": "overwritten with nonsense",
        "Undertow": "deleted",
        "Landing": "copied to another folder",
    }


def take_away(root: Path, aside: Path) -> None:
    """The music is gone, as when a disk is not mounted."""
    (root / "Music").rename(aside)
    (root / "Music").mkdir()


def bring_back(root: Path, aside: Path) -> None:
    (root / "Music").rmdir()
    aside.rename(root / "Music")


def _tags(title: str, album: str, number: int, year: str) -> dict[str, str]:
    return {"title": title, "artist": "Tin Harbour", "album": album, "track": str(number), "year": year}


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    _old(path)


def _old(path: Path) -> None:
    then = time.time() - OLD_S
    os.utime(path, (then, then))


def _swap(one: Path, other: Path) -> None:
    aside = one.with_name(".aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)

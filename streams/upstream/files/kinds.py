"""Which files are media, and which names are passed over. Tables, to be added to; suffixes in lower case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """``media_kind`` and ``item_kind`` as in ItemDetails; ``reader``: which library knows the format."""

    media_kind: str
    item_kind: str
    reader: str


_TRACK: Final = Kind("music", "track", "tinytag")
_TRACK_OTHER: Final = Kind("music", "track", "mediainfo")
_BOOK: Final = Kind("audiobook", "book", "tinytag")
_VIDEO: Final = Kind("video", "video", "mediainfo")

KINDS: Final[dict[bytes, Kind]] = {
    **dict.fromkeys(
        b"mp3 mp2 mp1 flac ogg oga opus spx wav m4a m4r wma aif aiff aifc".split(),
        _TRACK,
    ),
    **dict.fromkeys(b"aac ac3 ape dsf dff dts eac3 mka mpc tak tta webma wv".split(), _TRACK_OTHER),
    **dict.fromkeys(b"m4b aax aaxc".split(), _BOOK),
    **dict.fromkeys(
        b"3g2 3gp avi divx flv m2ts m4v mkv mov mp4 mpe mpeg mpg mts ogm ogv rm rmvb ts vob webm wmv".split(), _VIDEO
    ),
}
TEMPORARY: Final = tuple(
    b".part .partial .tmp .temp .crdownload .download .opdownload .filepart .aria2 .!qb .!ut .bc! .swp ~".split()
)
TEMPORARY_STARTS: Final = (b"~$", b".~", b".syncthing.", b".goutputstream-", b".#")
SYSTEM_FOLDERS: Final = frozenset(
    {b"@eadir", b"#recycle", b"@recycle", b"$recycle.bin", b"lost+found", b"system volume information", b"recycler"}
)


def kind_of(name: bytes) -> Kind | None:
    """The kind of a file by the end of its name, whatever its case; None: no media."""
    stem, dot, suffix = name.rpartition(b".")
    return KINDS.get(suffix.lower()) if dot and stem else None


def passed_over(name: bytes, *, folder: bool) -> str | None:
    """The reason to skip a name unseen: appledouble, temporary, hidden; None: look at it."""
    if name.startswith(b"._"):
        return "appledouble"
    lower = name.lower()
    if not folder and (lower.endswith(TEMPORARY) or lower.startswith(TEMPORARY_STARTS)):
        return "temporary"
    if name.startswith(b".") or (folder and lower in SYSTEM_FOLDERS):
        return "hidden"
    return None

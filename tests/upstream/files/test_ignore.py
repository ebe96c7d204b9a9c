"""``.ignore`` files, as rules and in a walk."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.upstream.files import ignore, walk
from streams.upstream.files.errors import RootMissing


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def rules(path: Path, text: str) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / ".ignore").write_text(text)


def walked(root: Path) -> tuple[list[bytes], list[tuple[bytes, bool, str]], list[str]]:
    """Paths seen, places not seen, reasons counted."""
    skipped: list[str] = []
    seen: list[bytes] = []
    not_seen: list[tuple[bytes, bool, str]] = []
    with walk.opened(root, skipped.append) as tree:
        for step in tree.walk():
            match step:
                case walk.Folder():
                    seen += [file.path for file in step.files]
                case walk.NotSeen(path, folder, reason):
                    not_seen.append((path, folder, reason))
    return seen, not_seen, skipped


def test_ignored_media_and_folders_are_told_as_ignored(tmp_path: Path) -> None:
    make(tmp_path, "a.mp3", "b.mp3", "trailers/t.mp3", "x/trailers/t.mp3", "x/c.mp3", "cover.jpg")
    rules(tmp_path, "# comment\n/b.mp3\ntrailers/\n*.jpg\n")
    seen, not_seen, skipped = walked(tmp_path)
    assert seen == [b"a.mp3", b"x/c.mp3"]
    assert not_seen == [
        (b"b.mp3", False, "ignored"),
        (b"trailers", True, "ignored"),
        (b"x/trailers", True, "ignored"),
    ]
    assert skipped == ["hidden", "not_media"]


def test_a_deeper_file_overrules_one_above_but_takes_nothing_out_of_an_ignored_folder(tmp_path: Path) -> None:
    make(tmp_path, "x/keep.mp3", "x/drop.mp3", "y/keep.mp3")
    rules(tmp_path, "*.mp3\n/y/\n")
    rules(tmp_path / "x", "!keep.mp3\n")
    rules(tmp_path / "y", "!keep.mp3\n")
    seen, not_seen, _ = walked(tmp_path)
    assert seen == [b"x/keep.mp3"]
    assert not_seen == [(b"x/drop.mp3", False, "ignored"), (b"y", True, "ignored")]


@pytest.mark.parametrize("text", ["", "  \n\n"])
def test_an_empty_file_ignores_its_whole_folder(tmp_path: Path, text: str) -> None:
    make(tmp_path, "a.mp3", "x/b.mp3", "x/y/c.mp3")
    rules(tmp_path / "x", text)
    assert walked(tmp_path)[:2] == ([b"a.mp3"], [(b"x", True, "ignored")])


def test_an_empty_file_in_the_root_ignores_everything_in_it(tmp_path: Path) -> None:
    make(tmp_path, "a.mp3", "x/b.mp3")
    rules(tmp_path, "")
    assert walked(tmp_path)[:2] == ([], [(b"a.mp3", False, "ignored"), (b"x", True, "ignored")])


@pytest.mark.parametrize(
    "text",
    [
        "x" * (ignore.BYTES_MAX + 1),
        "a\n" * (ignore.PATTERNS_MAX + 1),
        "x" * (ignore.PATTERN_CHARS_MAX + 1),
        "a*b*c*d*e\n",
        "**/a/**/b/**/c\n",
    ],
)
def test_a_file_over_a_limit_hides_nothing_and_removes_nothing(tmp_path: Path, text: str) -> None:
    make(tmp_path, "a.mp3", "x/b.mp3")
    rules(tmp_path / "x", text)
    seen, not_seen, skipped = walked(tmp_path)
    assert (seen, not_seen) == ([b"a.mp3"], [(b"x", True, "unreadable")])
    assert "bad_ignore_file" in skipped


def test_a_bad_file_in_the_root_fails_the_walk(tmp_path: Path) -> None:
    make(tmp_path, "a.mp3")
    rules(tmp_path, "a*b*c*d*e\n")
    with pytest.raises(RootMissing):
        walked(tmp_path)


def test_a_symlink_is_no_ignore_file(tmp_path: Path) -> None:
    make(tmp_path, "a.mp3")
    (tmp_path.parent / "rules").write_text("*.mp3\n")
    (tmp_path / ".ignore").symlink_to(tmp_path.parent / "rules")
    assert walked(tmp_path)[0] == [b"a.mp3"]


@pytest.mark.parametrize(
    ("pattern", "path", "folder", "ignored"),
    [
        (b"*.bak", b"x/a.bak", False, True),
        (b"*.bak", b"x\ny/a.bak", False, True),
        (b"*.bak", b"a.bak\n", False, False),
        (b"caf\xe9*", b"caf\xe9.mp3", False, True),
        (b"sub/", b"sub", True, True),
        (b"sub/", b"sub", False, False),
        (b"/top", b"x/top", False, False),
        ("Träume".encode(), "Träume".encode(), True, True),
        (b"\xef\xbb\xbfa", b"a", False, True),
    ],
)
def test_a_pattern_matches(pattern: bytes, path: bytes, folder: bool, ignored: bool) -> None:
    assert ignore.ignores([ignore.parse(b"", pattern)], path, folder=folder) is ignored


def test_the_worst_pattern_within_the_limits_ends(tmp_path: Path) -> None:
    rule = ignore.parse(b"", b"**/a*a*a*b/**/x\n")
    assert ignore.ignores([rule], b"a" * 255, folder=False) is False

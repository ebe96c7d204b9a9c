"""Which changes in a tree are worth a scan."""

from __future__ import annotations

import pytest
from watchfiles import Change

from streams.effects.watching import worth_a_scan


@pytest.mark.parametrize("path", ["a.flac", "artist/album/01.mp3", "artist", ".ignore", "artist/.ignore"])
def test_media_folders_and_what_says_to_ignore_are_worth_a_scan(path: str) -> None:
    assert worth_a_scan(Change.modified, path)


@pytest.mark.parametrize("path", [".DS_Store", "artist/._01.mp3", ".stfolder/x", "artist/.hidden/01.mp3"])
def test_what_a_scan_passes_over_is_not(path: str) -> None:
    assert not worth_a_scan(Change.added, path)

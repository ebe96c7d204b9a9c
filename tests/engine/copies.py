"""State directories as a kill at this moment would leave them."""

from __future__ import annotations

import shutil
from pathlib import Path


def copy_state(folder: Path, to: Path) -> Path:
    """Copy a state directory as of one moment: when RocksDB tidied up meanwhile, all is copied anew."""
    while True:
        try:
            before = _sizes(folder)
            shutil.copytree(folder, to, ignore=shutil.ignore_patterns("LOCK"))
            if _sizes(folder) == before:
                return to
        except (shutil.Error, FileNotFoundError):
            pass
        shutil.rmtree(to, ignore_errors=True)


def _sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.name != "LOG"}

"""The files of the project: what git tracks, or, in an unpacked copy, what is there."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NOT_OURS = {".git", ".venv", "data", "secrets", "__pycache__", "dist"}


@cache
def files(suffix: str = "") -> tuple[Path, ...]:
    """Paths, relative to ROOT, of all files whose name ends with ``suffix``; those not yet added to git too."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        found = [Path(name) for name in listed.stdout.decode().split("\0") if name]
    else:
        found = [path.relative_to(ROOT) for path in ROOT.rglob("*") if not _NOT_OURS & set(path.parts)]
    return tuple(sorted(path for path in found if path.name.endswith(suffix) and (ROOT / path).is_file()))


def text(path: Path) -> str:
    """The file's text; what is not UTF-8 is replaced."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace")

"""Golden payloads: one request body a file in FORMAT/, and in FORMAT.expected what is printed for each.

What is compared is what `playhead parse` prints, by the function it prints with, to the byte. All values are invented.

    python -m tests.ingest.hooks.golden            # shows what differs, as a diff; exit 1 when something does
    python -m tests.ingest.hooks.golden --write    # takes what is printed now as what is expected
"""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path

from streams.cli.parse import parse_lines

GOLDEN = Path(__file__).parent


def payloads(format: str) -> list[Path]:
    """The payload files of a format, by name."""
    return sorted((GOLDEN / format).iterdir())


def bodies(format: str) -> list[bytes]:
    """The request bodies of a format."""
    return [path.read_bytes() for path in payloads(format)]


def printed(format: str, path: Path) -> str:
    """The payload's name, then each line that is printed for it."""
    lines = [json.dumps(line) for line in parse_lines(format, path.read_bytes())]
    return "".join(f"{line}\n" for line in [f"# {path.name}", *lines, ""])


def now(format: str) -> dict[str, str]:
    """What is printed for each payload, by its file's name."""
    return {path.name: printed(format, path) for path in payloads(format)}


def expected(format: str) -> dict[str, str]:
    """What is expected of each payload, by its file's name; empty when nothing is yet."""
    file = GOLDEN / f"{format}.expected"
    sections = re.split(r"^# ", file.read_text(), flags=re.MULTILINE) if file.exists() else []
    return {section.partition("\n")[0]: f"# {section}" for section in sections if section}


def difference(format: str) -> list[str]:
    """A unified diff from what is expected to what is printed now; empty when they are the same."""
    before, after = "".join(expected(format).values()), "".join(now(format).values())
    name = f"golden/{format}.expected"
    return list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), name, "printed now", n=1))

"""``.ignore`` files: patterns as in .gitignore, for their folder and what is below it.

A deeper file overrules one further up, as in git; nothing below an ignored folder can be taken back. A file that holds
nothing ignores its whole folder, as media servers have it. Patterns become regular expressions, so their number and
their wildcards are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError

NAME: Final = b".ignore"
BYTES_MAX: Final = 64 * 1024
PATTERNS_MAX: Final = 256
PATTERN_CHARS_MAX: Final = 256
WILDCARDS_MAX: Final = 3
"""Runs of ``*`` in one segment of a pattern; with more of them a match may take for ever."""
DEEP_WILDCARDS_MAX: Final = 2
"""Segments ``**`` in one pattern."""


class BadIgnore(ValueError):
    """An ``.ignore`` file that is over a limit or can't be understood."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What one file says. ``folder``: where it lies, relative to the root, "" or with a final slash."""

    folder: bytes
    spec: GitIgnoreSpec | None
    """None: everything is ignored."""


def parse(folder: bytes, content: bytes) -> Rules:
    """Raises BadIgnore."""
    if len(content) > BYTES_MAX:
        raise BadIgnore("too large")
    text = content.decode("utf-8-sig", "surrogateescape")
    if not text.strip():
        return Rules(folder, None)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) > PATTERNS_MAX:
        raise BadIgnore("too many patterns")
    for line in lines:
        if len(line) > PATTERN_CHARS_MAX:
            raise BadIgnore("a pattern is too long")
        segments = line.split("/")
        if sum(part == "**" for part in segments) > DEEP_WILDCARDS_MAX:
            raise BadIgnore("too many '**' in a pattern")
        if any(len(re.findall(r"\*+", part)) > WILDCARDS_MAX for part in segments):
            raise BadIgnore("too many '*' in a pattern")
    try:
        return Rules(folder, GitIgnoreSpec.from_lines(lines, backend="simple"))
    except (GitIgnorePatternError, ValueError, re.error):
        raise BadIgnore("a pattern can't be understood") from None


def ignores(rules: Sequence[Rules], path: bytes, *, folder: bool) -> bool:
    """Whether ``path`` is ignored by ``rules``, which are of the folders above it, the deepest last."""
    for rule in reversed(rules):
        if rule.spec is None:
            return True
        # A regular expression of a pattern takes a line break for an end.
        text = path[len(rule.folder) :].decode("utf-8", "surrogateescape").replace("\n", "\1")
        verdict = rule.spec.check_file(text + "/" if folder else text).include
        if verdict is not None:
            return verdict
    return False

"""The playbook, taken apart: its sections, the metrics and commands they name."""

from __future__ import annotations

import re
from functools import cache

from tests.observe.queries import OBSERVE

_CODE = re.compile(r"`([^`]+)`")


@cache
def sections() -> dict[str, str]:
    """Heading to text, of every section."""
    text = (OBSERVE / "PLAYBOOK.md").read_text("utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def anchors() -> set[str]:
    """As a link names a section."""
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in sections()}


def code(text: str) -> list[str]:
    return [" ".join(one.split()) for one in _CODE.findall(text)]


def commands(text: str) -> list[list[str]]:
    """The arguments of each ``playhead …`` of a text."""
    return [one.split()[1:] for one in code(text) if one.startswith("playhead ")]


def named_metrics(text: str) -> list[str]:
    return [one for one in code(text) if one.startswith("playhead_")]

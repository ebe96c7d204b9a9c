"""The corpus: bodies that reached something new once. One base64 line each in kept/FORMAT.b64, sorted."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from tests.ingest.hooks import golden

KEPT = Path(__file__).parent / "kept"
BODY_MAX = 4096
BODIES_MAX = 200


def bodies(format: str) -> list[bytes]:
    """The kept bodies of a format."""
    file = KEPT / f"{format}.b64"
    return [base64.b64decode(line) for line in file.read_text().split()] if file.exists() else []


def seeds(format: str) -> list[bytes]:
    """What a run begins with: the golden payloads, and what was kept of earlier runs."""
    return [*golden.bodies(format), *bodies(format)]


def keep(format: str, found: Iterable[bytes]) -> int:
    """Take bodies into the corpus, the shortest first, as long as it stays small; returns how many it holds then."""
    small = sorted({body for body in found if 0 < len(body) <= BODY_MAX}, key=lambda body: (len(body), body))
    kept = sorted(base64.b64encode(body).decode() for body in small[:BODIES_MAX])
    KEPT.mkdir(exist_ok=True)
    (KEPT / f"{format}.b64").write_text("".join(f"{line}\n" for line in kept))
    return len(kept)

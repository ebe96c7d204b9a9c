"""The corpus: bodies that came to an outcome of their own once. One base64 line each in kept/FORMAT.b64, sorted."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.properties import check
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
    """Take bodies into the corpus that come to an outcome nothing in it did; returns how many it holds then.

    The shortest body of each outcome is kept, as long as the corpus stays small.
    """
    outcomes = {check(format, body) for body in golden.bodies(format)}
    kept: list[bytes] = []
    for body in sorted({*bodies(format), *found}, key=lambda body: (len(body), body)):
        if not 0 < len(body) <= BODY_MAX or len(kept) == BODIES_MAX:
            continue
        outcome = check(format, body)
        if outcome not in outcomes:
            outcomes.add(outcome)
            kept.append(body)
    KEPT.mkdir(exist_ok=True)
    lines = sorted(base64.b64encode(body).decode() for body in kept)
    (KEPT / f"{format}.b64").write_text("".join(f"{line}\n" for line in lines))
    return len(kept)

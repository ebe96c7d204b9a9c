"""A seeded household of reports: sessions with sequences, duplicates, late ones, rewinds and re-watches.

The same seed gives the same reports in the same order. Ids name the seed, so a failure can be played again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MINUTE = 60_000
DUPLICATES = 0.05
LATE = 0.05
_HELD_MAX = 400


@dataclass(slots=True)
class _Session:
    user: str
    media: str
    number: int
    duration_ms: int
    position_ms: int = 0
    sequence: int = 0
    listened_ms: int = 0


class Workload:
    """``count`` reports of ``count // 60`` people, each with a few media and several sessions of each."""

    def __init__(self, seed: int, count: int, begin_ms: int) -> None:
        self._dice = random.Random(seed)
        self._seed = seed
        self._count = count
        self._now = begin_ms
        self._users = [f"u{seed}-{number}" for number in range(max(12, count // 60))]
        self._sessions: list[_Session] = []

    def batches(self, size: int) -> Iterator[list[dict[str, Any]]]:
        """All reports, duplicates and late ones among them, in bodies of ``size``."""
        reports = list(self._arrivals())
        for start in range(0, len(reports), size):
            yield reports[start : start + size]

    def _arrivals(self) -> Iterator[dict[str, Any]]:
        """Reports as they reach the door: some are held back, some come again."""
        held: list[tuple[int, dict[str, Any]]] = []
        sent: list[dict[str, Any]] = []
        for number in range(self._count):
            for due in [item for item in held if item[0] <= number]:
                held.remove(due)
                yield due[1]
            chance = self._dice.random()
            if chance < DUPLICATES and sent:
                yield self._dice.choice(sent[-_HELD_MAX:])
                continue
            report = self._next()
            sent.append(report)
            if chance > 1 - LATE:
                held.append((number + self._dice.randrange(5, _HELD_MAX), report))
            else:
                yield report
        for _, report in held:
            yield report

    def _next(self) -> dict[str, Any]:
        dice = self._dice
        self._now += dice.randrange(20, 400)
        session = self._session()
        session.sequence += 1
        kind = dice.choices(
            ("progress", "pause", "resume", "seek", "stop", "finish", "mark_played", "mark_unplayed", "set_position"),
            weights=(80, 4, 4, 4, 3, 2, 1, 1, 1),
        )[0]
        if session.sequence == 1:
            kind = "start"
        elif kind == "seek":
            session.position_ms = dice.randrange(0, session.duration_ms)
        elif kind == "finish":
            session.position_ms = session.duration_ms
        else:
            step = dice.randrange(5_000, 10 * MINUTE)
            session.position_ms = min(session.duration_ms, session.position_ms + step)
            session.listened_ms += step
        if kind in ("stop", "finish"):
            self._sessions.remove(session)
        return {
            "event_id": f"w{self._seed}:{session.number}:{session.sequence}",
            "user": session.user,
            "media": session.media,
            "media_kind": "video",
            "session_id": f"s{session.number}",
            "device_id": f"d{session.number % 5}",
            "sequence": session.sequence,
            "kind": kind,
            "position_ms": session.position_ms,
            "duration_ms": session.duration_ms,
            "listened_ms": session.listened_ms,
            "occurred_at": self._now,
        }

    def _session(self) -> _Session:
        dice = self._dice
        if len(self._sessions) < len(self._users) // 2 or dice.random() < 0.03:
            self._sessions.append(
                _Session(
                    user=dice.choice(self._users),
                    media=f"m{dice.randrange(3)}",
                    number=dice.getrandbits(40),
                    duration_ms=dice.choice((44, 90, 110)) * MINUTE,
                )
            )
        return dice.choice(self._sessions)

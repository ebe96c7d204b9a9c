"""Hypothesis strategies of reports: any at all, a crowd of runs on one key, and one well-behaved run."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from streams.domain.report import Report
from tests.domain.given import report

PLAYBACK = ("start", "progress", "pause", "resume", "seek", "stop", "finish")
COMMANDS = ("mark_played", "mark_unplayed", "set_position", "clear_position")
DURATIONS = (None, 40, 240, 3600, 7200)

# Positions in seconds: anywhere, and around every threshold of a two-hour film.
positions = st.one_of(
    st.integers(0, 7200),
    st.sampled_from([0, 1, 59, 60, 61, 600, 610, 631, 640, 3599, 3600, 3601, 6449, 6451, 6480, 6500, 7190, 7200]),
)


def reports(*, sequences: bool = True) -> st.SearchStrategy[Report]:
    """Reports of a few runs and a person's commands, on one key, within a day; any of them may be odd."""

    @st.composite
    def one(draw: st.DrawFn) -> Report:
        kind = draw(st.sampled_from(PLAYBACK * 3 + COMMANDS))
        at = draw(st.integers(0, 400)) * 10
        seq = draw(st.none() | st.integers(1, 40)) if sequences else None
        more: dict[str, Any] = {}
        if draw(st.integers(0, 5)) == 0:
            more["automated"] = True
        if draw(st.integers(0, 7)) == 0:
            more["failed"] = True
        if draw(st.integers(0, 3)) == 0:
            more["played"] = True
        if draw(st.integers(0, 2)) == 0:
            more["listened_ms"] = draw(st.integers(-5, 200_000_000))
        if draw(st.integers(0, 9)) == 0:
            more["origin"] = draw(st.sampled_from(["webhook", "echo", "import", "poll"]))
        needs = kind in ("progress", "seek", "set_position")
        return report(
            kind,
            draw(positions if needs else st.none() | positions),
            at=at,
            run=draw(st.sampled_from([None, "tv", "phone", "web", "tablet"])),
            device=draw(st.sampled_from(["d1", "d2", "d3"])),
            seq=seq,
            duration=draw(st.sampled_from(DURATIONS)),
            media_kind=draw(st.sampled_from([None, "video", "music", "audiobook", "live"])),
            event_id=draw(st.none() | st.integers(0, 300).map(str)),
            **more,
        )

    return one()


@st.composite
def one_run(draw: st.DrawFn) -> list[Report]:
    """Reports of one run in order: sequences, no gap of 30 min, no start after a stop or finish.

    None is automated, failed or empty, none returns near the start after a finish, and no progress stays at the
    place of a pause before it (its phase is then a matter of the reports between). Positions differ by more
    than a step of playing (10 s): what a run remembers of itself is no finer.
    """
    media_kind, duration = draw(
        st.sampled_from([("video", 7200), ("music", 240), ("audiobook", 7200), ("video", None)])
    )
    near = min(60, (duration or 7200) // 20)
    high = 7200 if duration is None else duration
    band = [high * 9 // 10 - 31, high * 9 // 10 - 19, high * 9 // 10, high - 41, high - 11, high]
    place = st.one_of(
        st.integers(near // 12 + 1, high // 12).map(lambda twelfth: twelfth * 12),
        st.sampled_from([p for p in band if p > near]),
    )
    run, at, seq, ended, paused_at = [], 0, 0, False, None
    for _ in range(draw(st.integers(1, 9))):
        at += draw(st.integers(1, 1799))
        seq += draw(st.integers(1, 3))
        kind = draw(st.sampled_from([kind for kind in PLAYBACK if not (ended and kind == "start")]))
        optional = kind in ("pause", "resume") or (kind == "finish" and duration is not None)
        position = draw(st.none() | place) if optional else draw(place)
        if kind == "progress" and position == paused_at:
            kind = "resume"
        paused_at = position if kind == "pause" else paused_at
        ended = ended or kind in ("stop", "finish")
        played = kind == "stop" and duration is not None and draw(st.booleans())
        run.append(
            report(
                kind,
                position,
                at=at,
                seq=seq,
                duration=duration,
                media_kind=media_kind,
                event_id=f"e{seq}",
                played=played or None,
                listened_ms=draw(st.none() | st.integers(0, at * 1000)),
            )
        )
    return run

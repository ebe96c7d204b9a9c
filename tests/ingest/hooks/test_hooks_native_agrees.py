"""The native parser and `playhead decide` read the same reports alike."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.domain.reading import read_report
from streams.domain.report import Report
from streams.ingest.hooks import ParsedReport, parse

odd: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", " ", 0, -1, 1.5, 7.0, True, "a" * 257, "\x00", "\ud800", [], {}, 2**63, "2026"]
)
whole = st.integers(-10, 10**13)
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "user": st.sampled_from(["ana", "ben"]),
    "media": st.sampled_from(["m-1", None]),
    "upstream_media": st.sampled_from(["i-1", None]),
    "kind": st.sampled_from(["start", "progress", "stop", "mark_played", "completed"]),
    "position_ms": whole,
    "duration_ms": whole,
    "sequence": st.integers(0, 99),
    "occurred_at": st.one_of(whole, st.just("2026-05-04T10:30:00+02:00")),
    "received_at": whole,
    "media_kind": st.sampled_from(["video", "music", "opera"]),
    "played": st.booleans(),
    "listened_ms": whole,
    "origin": st.sampled_from(["client", "import", "echo"]),
    "event_id": st.text(max_size=5),
}


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.fixed_dictionaries({}, optional=FIELDS),
    st.dictionaries(st.sampled_from(sorted(FIELDS)), odd, max_size=2),
)
def test_native_and_decide_accept_the_same_reports_with_the_same_values(
    fields: dict[str, Any], damage: dict[str, Any]
) -> None:
    document = fields | damage
    (parsed,) = parse("native", json.dumps(document).encode())
    decided = read_report(document, previous_received_at=0)
    if damage.get("upstream_media") is not None and fields.get("media") is not None:
        return  # decide does not look at an upstream id that it does not need
    assert isinstance(parsed, ParsedReport) == isinstance(decided, Report)
    if isinstance(parsed, ParsedReport) and isinstance(decided, Report):
        again = read_report(dataclasses.asdict(parsed), previous_received_at=0)
        assert isinstance(again, Report)
        same = ("user", "media", "kind", "position_ms", "duration_ms", "sequence", "played", "listened_ms", "origin")
        assert [getattr(again, name) for name in same] == [getattr(decided, name) for name in same]

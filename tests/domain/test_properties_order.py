"""Property: reports of one run in any order, with any duplicates, end as in order."""

from __future__ import annotations

from hypothesis import given as given_any
from hypothesis import settings
from hypothesis import strategies as st

from streams.domain.report import Report
from tests.domain.given import given
from tests.domain.strategies import one_run


@st.composite
def runs_and_their_shuffles(draw: st.DrawFn) -> tuple[list[Report], list[Report]]:
    run = draw(one_run())
    again = draw(st.lists(st.sampled_from(run), max_size=4))
    return run, draw(st.permutations(run + again))


@settings(max_examples=400, deadline=None)
@given_any(runs_and_their_shuffles())
def test_any_order_of_one_run_ends_as_in_order(case: tuple[list[Report], list[Report]]) -> None:
    run, shuffled = case
    in_order, out_of_order = given(*run), given(*shuffled)
    for name in ("played", "play_count", "listened_ms", "phase"):
        assert out_of_order.shown[name] == in_order.shown[name], (name, in_order.verdicts, out_of_order.verdicts)
    if in_order.shown["phase"] != "finished":
        assert out_of_order.shown["position_ms"] == in_order.shown["position_ms"]

"""What one run found, as it is told."""

from __future__ import annotations

from projections.reconcile.findings import EXAMPLES_MAX, MEANING, Cause, Findings, Refold, Scan, Scope
from projections.reconcile.repairs import name_of
from projections.reconcile.running import Outcome


def test_all_are_counted_and_the_first_are_told() -> None:
    findings = Findings()
    for number in range(EXAMPLES_MAX + 5):
        findings.add(Cause.ROW_EDITED, f"row {number}", Refold("playback"))
    findings.add(Cause.ROWS_MORE, "many", Refold("playback"), times=100)
    assert findings.count == EXAMPLES_MAX + 105
    assert findings.drift[Cause.ROW_EDITED].examples == [f"row {number}" for number in range(EXAMPLES_MAX)]
    assert findings.repairs == {Refold("playback")}, "one mending for all of them"


def test_every_cause_has_a_meaning() -> None:
    assert set(MEANING) == set(Cause)


def test_causes_are_told_in_one_order_whatever_was_found_first() -> None:
    findings = Findings()
    findings.add(Cause.GONE_UPSTREAM, "it", Scan("shelf"))
    findings.add(Cause.ROW_DELETED, "row", Refold("library"))
    assert list(findings.as_json()["drift"]) == ["row_deleted", "gone_upstream"]


def test_drift_that_is_mended_is_in_order_and_other_is_not() -> None:
    findings = Findings()
    assert Outcome("r", findings).in_order
    findings.add(Cause.ROW_DELETED, "row", Refold("library"))
    assert not Outcome("r", findings).in_order
    assert Outcome("r", findings, {"refold": 1}).in_order


def test_what_could_not_be_compared_is_told_and_is_no_drift() -> None:
    findings = Findings()
    findings.pass_over(Scope.LIBRARY, "shelf", "away")
    findings.settle("the rules decided otherwise")
    assert (findings.count, findings.as_json()["passed_over"]) == (
        0,
        [{"scope": "library", "what": "shelf", "why": "away"}],
    )
    assert name_of(Scan("shelf")) == "scan"

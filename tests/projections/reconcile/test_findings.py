"""What one run found, as it is told."""

from __future__ import annotations

from projections.reconcile.findings import EXAMPLES_MAX, MEANING, Cause, Findings, Refold, Scan, Scope, scope_of
from projections.reconcile.repairs import name_of
from projections.reconcile.running import Chosen, Outcome, _account
from streams.runtime import metrics


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


def test_every_cause_is_of_one_scope_and_every_scope_has_causes() -> None:
    assert {scope_of(cause) for cause in Cause} == set(Scope)
    assert scope_of(Cause.ROWS_MORE) is Scope.ROWS
    assert scope_of(Cause.MISSING_HERE) is Scope.LIBRARY


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


def test_a_run_that_could_compare_nothing_is_told_from_one_that_agrees() -> None:
    findings = Findings()
    assert findings.compared, "there was nothing to compare"
    findings.pass_over(Scope.LIBRARY, "shelf", "away")
    findings.looked(Scope.LIBRARY, 0)
    assert (findings.compared, findings.saw(Scope.LIBRARY), findings.saw(Scope.ROWS)) == (False, False, True)
    findings.looked(Scope.ROWS, 7)
    assert (findings.compared, findings.saw(Scope.LIBRARY)) == (True, False)
    findings.looked(Scope.LIBRARY, 1)
    assert findings.saw(Scope.LIBRARY)


def test_what_was_found_last_is_shown_until_it_can_be_compared_again() -> None:
    gauge = metrics.RECONCILE_DRIFT.labels(Cause.GONE_UPSTREAM.value, "attic")
    gauge.set(3)
    findings = Findings()
    findings.pass_over(Scope.LIBRARY, "attic", "away")
    _account(findings, {}, Chosen((Scope.LIBRARY,), "attic"))
    assert gauge._value.get() == 3
    findings.looked(Scope.LIBRARY, 1)
    _account(findings, {}, Chosen((Scope.LIBRARY,), "attic"))
    assert gauge._value.get() == 0

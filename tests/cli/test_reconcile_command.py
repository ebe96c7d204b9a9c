"""What ``playhead reconcile`` says and ends with, by what could be compared."""

from __future__ import annotations

import pytest

from projections.reconcile import running
from projections.reconcile.findings import Cause, Findings, Scope
from projections.reconcile.running import Outcome
from streams.cli.app import main
from streams.runtime import logs


def said(findings: Findings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and text of a run that found this."""
    monkeypatch.setattr(running, "reconcile", lambda *_, **__: Outcome("run", findings))
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    return main(["reconcile"]), capsys.readouterr().out


def test_what_was_passed_over_is_named_and_nothing_else_is_not_said_to_agree(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = Findings()
    findings.pass_over(Scope.LIBRARY, "shelf", "the server is away")
    code, text = said(findings, monkeypatch, capsys)
    assert code == 69
    assert "not compared: library of shelf: the server is away" in text
    assert "nothing could be compared" in text
    assert "agree" not in text

    findings.looked(Scope.ROWS, 7)
    code, text = said(findings, monkeypatch, capsys)
    assert code == 0
    assert "not compared: library of shelf: the server is away" in text
    assert "what was compared agrees" in text

    findings.add(Cause.ROW_DELETED, "row")
    assert said(findings, monkeypatch, capsys)[0] == 1


def test_all_of_it_agrees_when_all_of_it_was_compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    findings = Findings()
    code, text = said(findings, monkeypatch, capsys)
    assert (code, "there was nothing to compare" in text) == (0, True)
    findings.looked(Scope.ROWS, 7)
    code, text = said(findings, monkeypatch, capsys)
    assert (code, "all of it agrees" in text) == (0, True)

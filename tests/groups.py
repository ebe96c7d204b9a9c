"""Names of tests as they are in their files: pytest-xdist adds ``@group`` to those it keeps on one worker.

Without this, what failed in a parallel run is another test to ``--last-failed``, which then passes over it.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Where the results of all workers come together. The rule of names is pytest-xdist's (scheduler/loadgroup.py)."""
    if hasattr(report, "node") and report.nodeid.rfind("@") > report.nodeid.rfind("]"):
        report.nodeid = report.nodeid.rpartition("@")[0]

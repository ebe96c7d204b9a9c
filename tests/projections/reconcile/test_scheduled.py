"""What a task asks for."""

from __future__ import annotations

import pytest

from projections.reconcile.findings import Scope
from projections.reconcile.scheduled import wanted
from streams.effects.kinds.reconcile import scopes_of
from streams.runtime.leases import Task


@pytest.mark.parametrize(
    ("asked", "lately", "found"),
    [
        (["all"], False, list(Scope)),
        (["all"], True, [Scope.LIBRARY, Scope.PROGRESS]),
        (["all", "rows"], True, [Scope.LIBRARY, Scope.PROGRESS, Scope.ROWS]),
        (["rows", "library", "repair"], True, [Scope.LIBRARY, Scope.ROWS]),
        (["caches", "who knows"], False, [Scope.CACHE]),
    ],
)
def test_what_is_of_no_source_is_compared_once_a_day_unless_it_is_named(
    asked: list[str], lately: bool, found: list[Scope]
) -> None:
    assert wanted(asked, lately=lately) == found


def test_a_scope_holds_until_its_own_version_is_done() -> None:
    payload = {"scope rows": 3, "scope library": 7, "other": 9}
    task = Task("reconcile", "shelf", "shelf", 1, 7, None, payload, "c", 1, 0.0, "t", done_version=3)
    assert scopes_of(task) == ["library"]

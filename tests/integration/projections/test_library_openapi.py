"""The library's routes answer as they are described, whatever is asked, over real read models."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi import checks

from projections.api import LibraryModels, Names, library_router
from streams.runtime.clock import FakeClock
from streams.runtime.database import Connection, Database
from streams.runtime.settings import Settings
from streams.runtime.tokens import Authenticator, Principal, Scope, hash_of
from streams.runtime.web import Guard, build_app
from tests.ingest.fakes import FakeAliases, FakePeople, FakeTokens, token
from tests.integration.projections.test_library_api import FOLDER, A, B, C, Library
from tests.projections.changes import aliased, held, item, merged, scan

pytestmark = pytest.mark.services

T = TypeVar("T")
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
THERE = {"source": ["home", "flat"], "scan_id": ["home:3", "home:9"], "media": [A, B, C, "u-a"], "collection": [FOLDER]}
"""What there is, by the name of the path's parameter."""


class AnyLoop:
    """A database for requests that each have an event loop of their own."""

    def __init__(self, settings: Settings) -> None:
        self._conninfo = settings.postgres.conninfo("reader")

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        async with Database(self._conninfo, timeout_s=30) as database:
            return await database.run(work)


@pytest.fixture
def description(model_settings: Settings) -> Any:
    library = Library(model_settings)
    library.change(
        item(A, 0), item(B, 1, status="missing"), aliased("u-a", A, 2), scan(3, 3, status="finalized"), scan(9, 4),
        held(True, 5), item(C, 6, locators=(), details=None), merged(B, A, 7),
    )  # fmt: skip
    tokens = FakeTokens(
        rows={
            hash_of(token("h")): Principal("t-home", "home", frozenset({Scope.READ})),
            hash_of(token("o")): Principal("t-op", None, frozenset({Scope.OPERATE})),
        }
    )
    names = Names(FakePeople({"home", "flat"}), FakeAliases())
    models = LibraryModels(cast(Any, AnyLoop(model_settings)))
    app = build_app("test")
    app.include_router(library_router(models, names, Guard(Authenticator(tokens, FakeClock()))))
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_whatever_is_asked_the_answer_is_one_that_is_described(description: Any) -> None:
    asked: set[str] = set()
    for found in description.get_all_operations():
        operation = found.ok()
        if not operation.path.startswith("/v1/"):
            continue

        @settings(
            max_examples=20, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy())
        def ask(case: schemathesis.Case[Any]) -> None:
            for who in ("o", "h"):
                case.call_and_validate(headers={"Authorization": f"Bearer {token(who)}"}, checks=CHECKS)

        @settings(
            max_examples=5, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=operation.as_strategy())
        def ask_for_what_is_there(case: schemathesis.Case[Any]) -> None:
            for name in case.path_parameters or {}:
                for there in THERE[name]:
                    case.path_parameters[name] = there
                    for who in ("o", "h"):
                        case.call_and_validate(headers={"Authorization": f"Bearer {token(who)}"}, checks=CHECKS)

        ask()
        ask_for_what_is_there()
        asked.add(operation.path)
    assert len(asked) == 7

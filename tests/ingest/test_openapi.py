"""The API's own description: true of the application, with an example of everything, and the examples work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.specs.openapi import checks

from streams.runtime.edge import HEALTH_PATHS
from tests.ingest.fakes import World

METHODS = frozenset({"get", "put", "post", "delete", "patch"})
CHECKS = (
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
)
WORLD = World()
DOCUMENT: dict[str, Any] = WORLD.app.openapi()
schema = schemathesis.openapi.from_asgi("/openapi.json", WORLD.app)


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method in METHODS & methods.keys():
            yield path, method, methods[method]


def token_for(path: str) -> str:
    if path.startswith(("/v1/sources", "/v1/scans")):
        return WORLD.operate
    return WORLD.bound if path.startswith("/1/") else WORLD.jelly if path.startswith("/hooks") else WORLD.report


def concrete(path: str, format: str = "jellyfin") -> str:
    named = path.replace("{source}", "music").replace("{scan}", "music:41")
    return named.replace("{format}", format).replace("{token}", token_for(path))


@schema.parametrize()
@settings(max_examples=40, derandomize=True, database=None)
def test_whatever_is_sent_the_answer_is_one_that_is_described(case: schemathesis.Case[Any]) -> None:
    if "token" in (case.path_parameters or {}):
        case.path_parameters["token"] = WORLD.jelly
    case.call_and_validate(headers={"Authorization": f"Bearer {token_for(case.path)}"}, checks=list(CHECKS))


def examples_of(content: dict[str, Any]) -> dict[str, Any]:
    found = {name: one["value"] for name, one in content.get("examples", {}).items()}
    return found | ({"example": content["example"]} if "example" in content else {})


def test_every_operation_and_every_answer_of_it_has_an_example() -> None:
    wanting = []
    for path, method, operation in operations():
        assert operation["summary"]
        for name, content in operation.get("requestBody", {}).get("content", {}).items():
            if name == "application/json" and not examples_of(content):
                wanting.append(f"{method} {path}: body")
        for code, response in operation["responses"].items():
            for name, content in response.get("content", {}).items():
                described = not name.endswith("json") or examples_of(content) or path in HEALTH_PATHS
                if not described:
                    wanting.append(f"{method} {path}: {code}")
    assert wanting == []


EXAMPLES = [
    (path, name, value)
    for path, method, operation in operations()
    if method == "post" and "requestBody" in operation
    for name, value in examples_of(operation["requestBody"]["content"]["application/json"]).items()
]


@pytest.mark.parametrize(("path", "name", "value"), EXAMPLES, ids=[f"{path} {name}" for path, name, _ in EXAMPLES])
def test_every_example_of_a_body_is_accepted_as_it_stands(path: str, name: str, value: Any) -> None:
    body = json.dumps(value).encode()
    answer = asyncio.run(
        WORLD.post(concrete(path, name), content=body, token=token_for(path), Content_Type="application/json")
    )
    assert answer.is_success, answer.text
    assert answer.json().get("rejected", []) == []
    assert answer.json().get("accepted", 1) >= 1


def test_the_description_names_no_token_and_nobody() -> None:
    text = json.dumps(DOCUMENT)
    assert "ph_ttt" not in text
    assert WORLD.report not in text

"""Two roles that registered the schemas in the same moment: the registry told one of them that the level was set
already (Apicurio: "A rule named 'COMPATIBILITY' already exists"), and that one ended as if its schemas were refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.ids import RegistryMismatch, SchemaIds
from schemas.registry import COMPATIBILITY, Registry
from schemas.versions import versions
from tests.schemas.stub_registry import Stub, serving


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as stub:
        yield stub


@pytest.fixture
def registry(stub: Stub, tmp_path: Path) -> Iterator[Registry]:
    with Registry(stub.url, SchemaIds(tmp_path / "schema-ids.json"), timeout_s=0.5) as registry:
        yield registry


def test_given_another_was_first_then_registering_succeeds(stub: Stub, registry: Registry) -> None:
    stub.overtaken = True
    assert len(registry.register()) == len(versions())
    assert set(stub.levels.values()) == {COMPATIBILITY}


def test_given_a_registry_that_keeps_another_level_then_it_is_told(stub: Stub, registry: Registry) -> None:
    stub.override["/config/"] = (422, b'{"error_code": 42203, "message": "Invalid compatibility level"}')
    with pytest.raises(RegistryMismatch, match="Invalid compatibility level"):
        registry.register()

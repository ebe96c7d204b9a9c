"""What a process does about schema ids: known ones need nobody, unknown ones are asked about once and judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.golden import Example, Garbage, examples, garbage
from schemas.ids import SchemaIds
from schemas.registry import Registry
from schemas.versions import newest
from streams.runtime.clock import FakeClock
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.settings import RegistrySettings, Settings
from tests.schemas.stub_registry import Stub, serving

REPORTED = newest("PlaybackReported")
DECIDED = newest("PlaybackDecided")
EXAMPLE: Example = next(example for example in examples() if example.name == "PlaybackReported/v1/full")


def under(schema_id: int) -> bytes:
    """The example's body under another schema id."""
    return b"\0" + schema_id.to_bytes(4, "big") + EXAMPLE.body


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as stub:
        yield stub


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def contract(stub: Stub, clock: FakeClock, tmp_path: Path) -> Iterator[Contract]:
    ids = SchemaIds(tmp_path / "schema-ids.json")
    contract = Contract(ids, Registry(stub.url, ids, timeout_s=0.5), clock)
    yield contract
    contract.close()


def settings(folder: Path, url: str | None) -> Settings:
    return Settings(state_dir=folder, registry=RegistrySettings(url=url, timeout_s=0.5))


def test_a_pinned_id_is_decoded_without_asking(contract: Contract, stub: Stub) -> None:
    assert contract.decode(contract.encode(EXAMPLE.event)) == EXAMPLE.event
    assert stub.requests == []


@pytest.mark.parametrize("piece", garbage(), ids=lambda piece: piece.name)
def test_garbage_is_permanent_with_its_cause(piece: Garbage) -> None:
    with pytest.raises(Permanent) as caught:
        Contract(SchemaIds(), None).decode(piece.data)
    assert caught.value.cause == piece.cause


def test_an_unknown_id_that_is_one_of_our_schemas_is_learned_and_decoded(contract: Contract, stub: Stub) -> None:
    stub.schemas[77] = REPORTED.text
    assert contract.decode(under(77)) == EXAMPLE.event
    asked = len(stub.requests)
    assert contract.decode(under(77)) == EXAMPLE.event
    assert len(stub.requests) == asked


def test_an_id_the_registry_knows_and_this_build_does_not_says_upgrade(contract: Contract, stub: Stub) -> None:
    stub.schemas[78] = REPORTED.text.replace("position_ms", "position_us")
    with pytest.raises(ConfigurationError, match="upgrade Playhead"):
        contract.decode(under(78))


def test_an_id_a_newer_build_learned_says_upgrade_even_without_the_registry(tmp_path: Path) -> None:
    SchemaIds(tmp_path / "ids.json").learn(78, "f" * 64)
    with pytest.raises(ConfigurationError, match="upgrade Playhead"):
        Contract(SchemaIds(tmp_path / "ids.json"), None).decode(under(78))


def test_an_id_another_process_has_learned_is_decoded_without_asking(tmp_path: Path, stub: Stub) -> None:
    ids = SchemaIds(tmp_path / "ids.json")
    contract = Contract(ids, Registry(stub.url, ids))
    SchemaIds(tmp_path / "ids.json").learn(5, REPORTED.fingerprint)
    assert contract.decode(under(5)) == EXAMPLE.event
    assert stub.requests == []
    contract.close()


def test_an_id_nobody_knows_is_poison_and_not_asked_about_again_for_a_minute(
    contract: Contract, stub: Stub, clock: FakeClock
) -> None:
    for _ in range(5):
        with pytest.raises(Permanent) as caught:
            contract.decode(under(4711))
        assert caught.value.cause == "unknown_schema"
    assert len(stub.requests) == 1
    # Registered late: the answer is not kept for ever.
    stub.schemas[4711] = REPORTED.text
    clock.advance(61_000)
    assert contract.decode(under(4711)) == EXAMPLE.event


@pytest.mark.parametrize("answer", [(500, b""), (200, b"<html>"), (404, b"<html>")])
def test_an_unknown_id_waits_while_the_registry_gives_no_answer(
    contract: Contract, stub: Stub, answer: tuple[int, bytes]
) -> None:
    stub.override["/schemas"] = answer
    with pytest.raises(Unavailable, match="waiting"):
        contract.decode(under(77))
    del stub.override["/schemas"]
    stub.schemas[77] = REPORTED.text
    assert contract.decode(under(77)) == EXAMPLE.event


def test_an_unknown_id_that_is_another_events_schema_is_poison(contract: Contract, stub: Stub) -> None:
    stub.schemas[77] = DECIDED.text
    with pytest.raises(Permanent):
        contract.decode(under(77))


def test_without_a_registry_an_unknown_id_is_poison_at_once(tmp_path: Path) -> None:
    contract = Contract.of(settings(tmp_path, None))
    with pytest.raises(Permanent) as caught:
        contract.decode(under(4711))
    assert caught.value.cause == "unknown_schema"


def test_a_process_starts_and_decodes_learned_ids_with_the_registry_away(tmp_path: Path) -> None:
    with serving() as stub:
        ids = SchemaIds(settings(tmp_path, None).schema_ids_file)
        with Registry(stub.url, ids) as registry:
            given = registry.register()
        url = stub.url
    contract = Contract.of(settings(tmp_path, url))
    wire = contract.encode(EXAMPLE.event)
    assert wire[1:5] == given["PlaybackReported.v1"].to_bytes(4, "big")
    assert contract.decode(wire) == EXAMPLE.event
    contract.close()


def test_a_process_learns_at_start_what_was_registered_elsewhere(tmp_path: Path, stub: Stub) -> None:
    with Registry(stub.url, SchemaIds()) as registry:
        given = registry.register()
    contract = Contract.of(settings(tmp_path, stub.url))
    assert contract.encode(EXAMPLE.event)[1:5] == given["PlaybackReported.v1"].to_bytes(4, "big")
    contract.close()


def test_a_registry_that_contradicts_a_learned_id_stops_the_start(tmp_path: Path, stub: Stub) -> None:
    SchemaIds(settings(tmp_path, None).schema_ids_file).learn(3, REPORTED.fingerprint)
    stub.schemas[3] = DECIDED.text
    with pytest.raises(ConfigurationError, match="replaced or restored"):
        Contract.of(settings(tmp_path, stub.url))


def test_a_damaged_file_of_ids_stops_the_start_with_advice(tmp_path: Path) -> None:
    settings(tmp_path, None).schema_ids_file.write_text(json.dumps(["not", "ids"]))
    with pytest.raises(ConfigurationError, match="damaged"):
        Contract.of(settings(tmp_path, None))


def test_a_file_of_ids_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    settings(tmp_path, None).schema_ids_file.mkdir()
    with pytest.raises(ConfigurationError, match="can't be read"):
        Contract.of(settings(tmp_path, None))

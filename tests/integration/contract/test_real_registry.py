"""The contract with a real Confluent-compatible registry: ids, restarts without it, FULL_TRANSITIVE, replacement."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from schemas.codec import schema_id_of
from schemas.golden import examples
from schemas.ids import SchemaIds
from schemas.registry import Nobody, Registry
from schemas.versions import newest, subject_of, versions
from streams.cli.app import main
from streams.local import Stack
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.settings import RegistrySettings, Settings

pytestmark = pytest.mark.services

EXAMPLE = next(example for example in examples() if example.name == "PlaybackReported/v1/full")


def settings(folder: Path, url: str) -> Settings:
    return Settings(state_dir=folder, registry=RegistrySettings(url=url, timeout_s=5))


def test_registering_gives_every_schema_an_id_and_doing_it_again_changes_nothing(
    registry_url: str, tmp_path: Path
) -> None:
    ids = SchemaIds(tmp_path / "schema-ids.json")
    with Registry(registry_url, ids) as registry:
        given = registry.register()
        assert len(set(given.values())) == len(versions())
        assert registry.register() == given
        assert registry.check() == []
        assert registry.confirm() == []
        assert registry.resolve(2_000_000_000) == Nobody(2_000_000_000)
    contract = Contract.of(settings(tmp_path / "another", registry_url))
    wire = contract.encode(EXAMPLE.event)
    assert schema_id_of(wire) == given["PlaybackReported.v1"]
    assert contract.decode(wire) == EXAMPLE.event
    with pytest.raises(Permanent) as caught:
        contract.decode(b"\0\x77\x35\x94\x01" + wire[5:])
    assert caught.value.cause == "unknown_schema"
    contract.close()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "later", "type": "string", "doc": "No default: an old record has none."},
        {"name": "partition", "type": "string", "doc": "Another type."},
    ],
    ids=["no default", "retyped"],
)
def test_the_registry_refuses_what_full_transitive_forbids(
    registry_url: str, tmp_path: Path, change: dict[str, str]
) -> None:
    with Registry(registry_url, SchemaIds(tmp_path / "schema-ids.json")) as registry:
        registry.register()
    document = json.loads(newest("CacheInvalidated").text)
    document["fields"] = [field for field in document["fields"] if field["name"] != change["name"]] + [change]
    with SchemaRegistryClient({"url": registry_url}) as client, pytest.raises(SchemaRegistryError) as caught:
        client.register_schema(subject_of("CacheInvalidated"), Schema(json.dumps(document), "AVRO"))
    assert caught.value.http_status_code in {409, 422}


def test_the_commands_register_and_check(
    registry_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLAYHEAD_REGISTRY__URL", registry_url)
    monkeypatch.setenv("PLAYHEAD_STATE_DIR", str(tmp_path / "state"))
    assert main(["schemas", "register", "--json"]) == 0
    given = json.loads(capsys.readouterr().out)["ids"]
    assert set(given) == {f"{schema.event}.v{schema.version}" for schema in versions()}
    assert main(["schemas", "check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"problems": [], "registry_asked": True}


def test_a_stopped_registry_stops_nobody_and_a_replaced_one_is_refused(
    private_stack: Callable[..., Stack], tmp_path: Path
) -> None:
    stack = private_stack(kafka=False, registry=True, fast=True)
    url = stack.addresses.registry_url
    assert url is not None
    here = settings(tmp_path, url)
    ids = SchemaIds(here.schema_ids_file)
    with Registry(url, ids) as registry:
        given = registry.register()

    stack.registry.stop()
    contract = Contract.of(here)
    wire = contract.encode(EXAMPLE.event)
    assert schema_id_of(wire) == given["PlaybackReported.v1"]
    assert contract.decode(wire) == EXAMPLE.event
    assert contract.decode(EXAMPLE.wire) == EXAMPLE.event
    unknown = b"\0\0\0\x70\0" + wire[5:]
    with pytest.raises(Unavailable, match="waiting"):
        contract.decode(unknown)

    stack.registry.start()
    with pytest.raises(Permanent):
        contract.decode(unknown)
    contract.close()
    with Registry(url, ids) as registry:
        assert registry.check() == [], "ids survive the registry's restart"

    # As if another registry had been put in its place: our first id now stands for something else.
    replaced = tmp_path / "replaced"
    swapped = {given["PlaybackReported.v1"]: newest("PlaybackDecided").fingerprint}
    replaced.mkdir()
    (replaced / "schema-ids.json").write_text(json.dumps(swapped))
    with pytest.raises(ConfigurationError, match="replaced or restored"):
        Contract.of(settings(replaced, url))

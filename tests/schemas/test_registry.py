"""A registry gives ids and nothing else: whatever it answers, what bytes mean does not change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.codec import Codec, schema_id_of
from schemas.errors import UnknownSchemaId
from schemas.golden import examples
from schemas.ids import RegistryMismatch, SchemaIds
from schemas.registry import COMPATIBILITY, Known, NewerBuild, Nobody, Registry, RegistryAway
from schemas.topics import LIBRARY_CHANGED, TOPICS, topic_of
from schemas.versions import newest, subject_of, versions
from tests.schemas.stub_registry import Stub, serving

REPORTED = newest("PlaybackReported")
DECIDED = newest("PlaybackDecided")
EXAMPLE = next(example for example in examples() if example.name == "PlaybackReported/v1/full")

GARBAGE = [
    (200, b""),
    (200, b"<html>a captive portal</html>"),
    (200, b"[]"),
    (200, b"null"),
    (200, b'{"schema": 5}'),
    (200, b'{"something": "else"}'),
    (200, b"\xff\xfe"),
    (404, b"<html>no such page</html>"),
    (404, b'{"error_code": 404, "message": "HTTP 404 Not Found"}'),
    (429, b'{"error_code": 429, "message": "slow down"}'),
    (500, b'{"error_code": 50001, "message": "Error in the backend datastore"}'),
    (502, b"bad gateway"),
    (503, b""),
]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serving() as stub:
        yield stub


@pytest.fixture
def ids(tmp_path: Path) -> SchemaIds:
    return SchemaIds(tmp_path / "schema-ids.json")


@pytest.fixture
def registry(stub: Stub, ids: SchemaIds) -> Iterator[Registry]:
    with Registry(stub.url, ids, timeout_s=0.5) as registry:
        yield registry


def test_registering_learns_an_id_for_every_schema_and_sets_the_level(
    registry: Registry, ids: SchemaIds, stub: Stub
) -> None:
    given = registry.register()
    assert set(given) == {f"{schema.event}.v{schema.version}" for schema in versions()}
    for schema in versions():
        assert ids.id_for(schema.event) == stub.subjects[subject_of(schema.event)][-1]
        assert stub.levels[subject_of(schema.event)] == COMPATIBILITY == "FULL_TRANSITIVE"
    assert schema_id_of(Codec(ids).encode(EXAMPLE.event)) == given["PlaybackReported.v1"]


def test_a_topic_of_one_event_is_the_subject_and_of_several_each_event_has_its_own(
    registry: Registry, stub: Stub
) -> None:
    """Confluent's TopicNameStrategy and TopicRecordNameStrategy. Copies in another topic are registered once."""
    registry.register()
    for topic in TOPICS:
        mine = {subject for subject in stub.subjects if subject.startswith(f"{topic.name}-")}
        match topic.holds:
            case () | ("MediaMerged",):
                assert mine == set()
            case (_,):
                assert mine == {f"{topic.name}-value"}
            case several:
                own = [event for event in several if topic_of(event) is topic]
                assert mine == {f"{topic.name}-playhead.{event}" for event in own}
    assert len(stub.subjects[subject_of("PlaybackDecided")]) == 2
    assert subject_of("MediaMerged") == f"{LIBRARY_CHANGED.name}-playhead.MediaMerged"


def test_registering_twice_changes_nothing(registry: Registry, ids: SchemaIds) -> None:
    given, learned = registry.register(), ids.learned()
    assert registry.register() == given
    assert ids.learned() == learned


def test_checking_a_fresh_registry_names_every_schema_and_changes_nothing(registry: Registry, stub: Stub) -> None:
    problems = registry.check()
    for schema in versions():
        assert any(f"{schema.event}.v{schema.version} is not registered" in line for line in problems)
    assert not [request for request in stub.requests if request.startswith("PUT") or request.endswith("versions")]


def test_checking_after_registering_finds_nothing(registry: Registry) -> None:
    registry.register()
    assert registry.check() == []


def test_a_loosened_level_is_a_difference(registry: Registry, stub: Stub) -> None:
    registry.register()
    stub.levels[subject_of("PlaybackReported")] = "NONE"
    assert registry.check() == [f"{subject_of('PlaybackReported')} is held to NONE, not FULL_TRANSITIVE"]


def test_ids_another_registry_hands_out_again_are_differences_and_stop_the_start(
    registry: Registry, ids: SchemaIds, stub: Stub
) -> None:
    registry.register()
    [first], [second, *_] = stub.subjects[subject_of("PlaybackReported")], stub.subjects[subject_of("PlaybackDecided")]
    stub.schemas[first], stub.schemas[second] = stub.schemas[second], stub.schemas[first]
    with Registry(stub.url, ids) as later:
        assert f"schema id {first} stands for another schema in the registry now" in later.check()
        with pytest.raises(RegistryMismatch, match="replaced or restored"):
            later.confirm()
    assert Codec(ids).decode(EXAMPLE.wire) == EXAMPLE.event


def test_ids_gone_from_the_registry_are_a_difference_and_no_reason_to_stop(
    registry: Registry, ids: SchemaIds, stub: Stub
) -> None:
    given = registry.register()
    stub.schemas.clear()
    stub.subjects.clear()
    with Registry(stub.url, ids) as later:
        assert f"schema id {given['PlaybackReported.v1']} is gone from the registry" in later.check()
        assert set(later.confirm()) == set(given)


def test_confirming_learns_ids_that_were_registered_elsewhere(registry: Registry, stub: Stub, tmp_path: Path) -> None:
    given = registry.register()
    mine = SchemaIds(tmp_path / "another" / "schema-ids.json")
    with Registry(stub.url, mine) as other:
        assert other.confirm() == []
    assert mine.id_for("PlaybackReported") == given["PlaybackReported.v1"]


def test_an_unknown_id_of_ours_is_learned(registry: Registry, ids: SchemaIds, stub: Stub) -> None:
    stub.schemas[77] = REPORTED.text
    assert registry.resolve(77) == Known(REPORTED)
    assert Codec(ids).decode(b"\0\0\0\0\x4d" + EXAMPLE.body) == EXAMPLE.event


def test_an_id_of_a_schema_we_do_not_have_is_a_newer_builds(registry: Registry, ids: SchemaIds, stub: Stub) -> None:
    document = json.loads(REPORTED.text)
    document["fields"].append({"name": "later", "type": ["null", "string"], "default": None, "doc": "Later."})
    stub.schemas[78] = json.dumps(document)
    stub.schemas[79] = '{"this": "is not Avro"}'
    for schema_id in (78, 79):
        assert isinstance(registry.resolve(schema_id), NewerBuild)
        with pytest.raises(UnknownSchemaId):
            ids.writer(schema_id)


def test_an_id_the_registry_does_not_know_is_nobodys(registry: Registry) -> None:
    assert registry.resolve(4711) == Nobody(4711)


@pytest.mark.parametrize("answer", GARBAGE, ids=lambda answer: f"{answer[0]} {answer[1][:24]!r}")
def test_an_answer_that_makes_no_sense_says_nothing_about_an_id(
    registry: Registry, ids: SchemaIds, stub: Stub, answer: tuple[int, bytes]
) -> None:
    stub.override["/"] = answer
    with pytest.raises(RegistryAway):
        registry.resolve(77)
    with pytest.raises(RegistryAway):
        registry.register()
    with pytest.raises(RegistryAway):
        registry.confirm()
    assert ids.learned() == {}
    assert Codec(ids).decode(EXAMPLE.wire) == EXAMPLE.event


def test_a_registry_that_does_not_answer_in_time_is_away(registry: Registry, stub: Stub) -> None:
    stub.silent.set()
    with pytest.raises(RegistryAway, match="does not answer"):
        registry.resolve(77)


def test_a_registry_that_is_not_there_is_away(ids: SchemaIds) -> None:
    with serving() as gone:
        url = gone.url
    with Registry(url, ids, timeout_s=0.5) as registry, pytest.raises(RegistryAway):
        registry.resolve(77)


@pytest.mark.parametrize(("status", "code"), [(401, 40101), (403, 40301), (409, 409), (422, 42201)])
def test_a_refusal_is_no_absence(registry: Registry, stub: Stub, status: int, code: int) -> None:
    stub.override["/subjects"] = (status, json.dumps({"error_code": code, "message": "no"}).encode())
    with pytest.raises(RegistryMismatch, match="refused"):
        registry.register()


@pytest.mark.parametrize("wrong", [DECIDED.pinned_id, 0, -5, 1 << 40, "7", None, True])
def test_an_id_that_is_no_id_or_anothers_is_refused_when_registering(
    registry: Registry, ids: SchemaIds, stub: Stub, wrong: object
) -> None:
    stub.override["/subjects"] = (200, json.dumps({"id": wrong}).encode())
    stub.override["/schemas/ids"] = (200, json.dumps({"schema": versions()[0].text}).encode())
    with pytest.raises((RegistryMismatch, RegistryAway)):
        registry.register()
    assert ids.learned() == {}
    for example in examples():
        assert Codec(ids).decode(example.wire) == example.event


def test_an_id_that_turns_out_to_be_another_schema_is_refused(registry: Registry, ids: SchemaIds, stub: Stub) -> None:
    stub.override["/schemas/ids"] = (200, json.dumps({"schema": DECIDED.text.replace("verdict", "verdikt")}).encode())
    with pytest.raises(RegistryMismatch, match="another schema when asked"):
        registry.register()
    assert ids.learned() == {}


def test_no_answer_to_a_known_id_changes_what_its_bytes_mean(registry: Registry, ids: SchemaIds, stub: Stub) -> None:
    given = registry.register()
    wire = Codec(ids).encode(EXAMPLE.event)
    hostile = json.dumps({"schema": DECIDED.text}).encode()
    for answer in [(200, hostile), *GARBAGE]:
        stub.override["/"] = answer
        stub.requests.clear()
        assert Codec(ids).decode(wire) == EXAMPLE.event
        assert stub.requests == [], "a known id is never asked about"
    with pytest.raises(RegistryMismatch):
        ids.learn(given["PlaybackReported.v1"], DECIDED.fingerprint)

"""The compiled codecs and fastavro: the same bytes, the same values, the same refusals in the same words."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import Codec
from schemas.codec.build import build
from schemas.codec.compiled import load
from schemas.codec.events import PLAN
from schemas.errors import ContractError
from schemas.events import Event
from schemas.golden import examples, garbage
from schemas.ids import SchemaIds
from tests.schemas import codec_fuzz
from tests.schemas.codec_fuzz import Difference, Pair
from tests.schemas.strategies import events

MUTANTS = 40_000
SEED = 20_260_101


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    for plan in codec_fuzz.PLANS:
        build(plan)
    return codec_fuzz.pairs()


@pytest.fixture(scope="module")
def codecs(pairs: Sequence[Pair]) -> tuple[Codec, Codec]:
    return Codec(SchemaIds(), "compiled"), Codec(SchemaIds(), "fastavro")


def test_mutated_records_end_the_same(pairs: list[Pair]) -> None:
    outcomes = codec_fuzz.run(pairs, MUTANTS, SEED)
    assert outcomes.total() == MUTANTS
    for outcome in ("value", "InvalidValue", "Truncated", "TrailingBytes"):
        assert outcomes[outcome] > MUTANTS // 200, outcomes


def test_wrong_values_in_any_field_are_refused_the_same(pairs: list[Pair]) -> None:
    chance = random.Random(SEED)
    for pair in pairs:
        outcomes = {pair.encode(value) for value in codec_fuzz.wrong_values(chance, pair)}
        assert {"value", "InvalidValue"} <= outcomes


def test_random_values_are_written_and_read_the_same(pairs: list[Pair]) -> None:
    chance = random.Random(SEED)
    for pair in pairs:
        outcomes = set()
        for _ in range(300):
            value = codec_fuzz.value_of(chance, pair.coded, pair.coded.reader)
            outcomes.add(pair.encode(value))
        assert "value" in outcomes


def test_golden_bodies_and_every_piece_of_them_end_the_same(pairs: list[Pair]) -> None:
    for pair in pairs:
        for body in codec_fuzz.corpus(pair, random.Random(SEED))[:8]:
            assert pair.decode(body) == "value"
            for length in range(len(body)):
                assert pair.decode(body[:length]) == "Truncated"
            assert pair.decode(body + b"\0") == "TrailingBytes"
            # From inside, a short row may be another one.
            pair.decode(body, 1)
            for start in (len(body), len(body) + 1, len(body) + 1_000):
                assert pair.decode(body, start) != "value"


def test_examples_and_garbage_end_the_same(codecs: tuple[Codec, Codec]) -> None:
    for data in [example.wire for example in examples()] + [piece.data for piece in garbage()]:
        assert _decoded(codecs[0], data) == _decoded(codecs[1], data)


@given(event=events(), suffix=st.binary(max_size=2))
def test_any_event_is_written_and_read_the_same(codecs: tuple[Codec, Codec], event: Event, suffix: bytes) -> None:
    data = codecs[0].encode(event)
    assert data == codecs[1].encode(event)
    assert _decoded(codecs[0], data + suffix) == _decoded(codecs[1], data + suffix)


def test_a_difference_between_the_two_is_noticed(pairs: list[Pair]) -> None:
    """The comparison itself works: one codec is given a version of its own."""
    pair = next(pair for pair in pairs if pair.coded.name == "PlaybackReported")
    key = (pair.coded.name, pair.version)
    honest = pair.reference.decode[key]
    lenient = type(pair.reference)("fastavro", pair.reference.encode, {key: lambda data, at: honest(data[:-1], at)})
    body = codec_fuzz.corpus(pair, random.Random(SEED))[0]
    with pytest.raises(Difference):
        Pair(pair.coded, pair.version, pair.compiled, lenient).decode(body)


def test_what_is_not_bytes_is_a_programming_error_not_a_crash() -> None:
    decode = load(PLAN).decode["PlaybackReported", 1]
    for data in (None, "text", bytearray(b"x"), memoryview(b"x"), 1):
        with pytest.raises(TypeError):
            decode(data, 0)  # type: ignore[arg-type]
    encode = load(PLAN).encode["PlaybackReported"]
    with pytest.raises(TypeError):
        encode(examples()[0].event, None)  # type: ignore[arg-type]


def _decoded(codec: Codec, data: bytes) -> object:
    try:
        return codec.decode(data)
    except ContractError as exc:
        return type(exc), str(exc)

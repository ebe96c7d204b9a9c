"""The parsers under fuzz, the same inputs each time; `python -m tests.fuzz` goes on for as long as it is told."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from streams.ingest.hooks import FORMATS, Result, result
from tests.fuzz import __main__ as command
from tests.fuzz import corpus, engines, properties
from tests.fuzz.mutate import BODY_MAX, mutate
from tests.ingest.hooks import golden

INPUTS = 1_500
SEED = 20_261_129


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_found_once_is_read_as_promised(format: str) -> None:
    for body in corpus.seeds(format):
        properties.check(format, body)


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_payloads_are_read_as_promised(format: str) -> None:
    run = engines.by_outcome(format, seed=SEED, inputs=INPUTS)
    assert (run.failure, run.message) == (None, "")
    assert run.inputs == INPUTS


@pytest.mark.parametrize("format", FORMATS)
def test_the_corpus_is_small_and_new_to_the_golden_payloads(format: str) -> None:
    kept = corpus.bodies(format)
    assert len(kept) <= corpus.BODIES_MAX
    assert all(len(body) <= corpus.BODY_MAX for body in kept)
    assert len(set(kept) | set(golden.bodies(format))) == len(kept) + len(set(golden.bodies(format)))


def test_the_same_seed_makes_the_same_inputs() -> None:
    def made(seed: int) -> list[bytes]:
        rng, seeds = random.Random(seed), corpus.seeds("jellyfin")
        return [mutate(rng.choice(seeds), seeds, rng) for _ in range(200)]

    assert made(1) == made(1)
    assert made(1) != made(2)
    assert max(map(len, made(3))) <= BODY_MAX


def test_a_parser_that_raises_is_found_and_its_input_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def parse(format: str, body: bytes, **more: object) -> list[Result]:
        if b'"media.' not in body:
            raise LookupError("no such thing")
        return [result.Ignored("no_news", "nothing")]

    monkeypatch.setattr(properties, "parse", parse)
    monkeypatch.setattr(corpus, "seeds", lambda format: [b'{"event": "media.play"}'])
    assert command.main(["--format", "plex", "--engine", "outcome", "--seconds", "60"]) == 1
    shown = capsys.readouterr().out
    assert "plex" in shown
    assert "LookupError: no such thing" in shown
    file = tmp_path / "broken.body"
    file.write_bytes(b"{}")
    with pytest.raises(LookupError):
        command.main(["--format", "plex", "--body", str(file)])


@pytest.mark.parametrize(
    ("results", "broken"),
    [
        ([], "no result at all"),
        ([result.Rejected("bad json", "x")], "no word"),
        ([result.Rejected("bad_json", "token tok-3fa85f64")], "quotes the input"),
        ([result.Rejected("bad_json", "x\n")], "control characters"),
        ([result.Rejected("bad_json", "x" * 300)], "no sentence"),
        ([result.ParsedReport(kind="stop", origin="client")], "no item"),
        ([result.ParsedReport(kind="stop", origin="client", upstream_media="m" * 257)], "the rules refuse"),
        ([result.ParsedReport(kind="stop", origin="client", upstream_media="m", position_ms=-1)], "position"),
        ([result.ParsedReport(kind="stop", origin="client", upstream_media="m", duration_ms=0)], "duration"),
        ([result.Observation(change="added", upstream_media="i", name="n" * 1025)], "not cut"),
        ([result.Ignored("no_news", "x")] * 1001, "more results"),
    ],
)
def test_each_broken_promise_is_noticed(results: list[Result], broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(properties, "parse", lambda format, body, **more: results)
    with pytest.raises(properties.Broken, match=broken):
        properties.check("plex", b"{}")


def test_the_command_fuzzes_with_the_best_engine_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--format", "emby", "--seconds", "1", "--seed", str(SEED)]) == 0
    engine = "atheris" if engines.has_atheris() else "outcome"
    format, used, _, seed, inputs, *_ = capsys.readouterr().out.split()
    assert (format, used, seed) == ("emby", engine, str(SEED))
    assert int(inputs.replace(",", "")) > 0


def test_the_shortest_body_of_each_new_outcome_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "KEPT", tmp_path / "kept")
    known, long = golden.bodies("plex")[0], b'{"event": "media.stop",    "Metadata": {"ratingKey": [1]}}'
    short = b'{"event":"media.stop","Metadata":{"ratingKey":[1]}}'
    assert corpus.keep("plex", [known, long, short, b"", long + b" " * corpus.BODY_MAX]) == 1
    assert corpus.bodies("plex") == [short]
    assert corpus.keep("plex", []) == 1

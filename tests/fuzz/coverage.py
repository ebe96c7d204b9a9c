"""The process libFuzzer runs in: `python -m tests.fuzz.coverage FORMAT LIBFUZZER-OPTIONS…`; engines.py starts it."""

from __future__ import annotations

import random
import sys

import atheris

with atheris.instrument_imports(include=["streams.ingest", "streams.runtime.json_text", "streams.domain.reading"]):
    from tests.fuzz.properties import check

from tests.fuzz import corpus
from tests.fuzz.mutate import mutate


def main() -> None:
    format, *options = sys.argv[1:]
    seeds = corpus.seeds(format)

    def damaged(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)
        if rng.random() < 0.5:
            return bytes(atheris.Mutate(data, max_size))
        return mutate(bytes(data), seeds, rng)[:max_size]

    def one(data: bytes) -> None:
        check(format, bytes(data))

    atheris.Setup([sys.argv[0], *options], one, custom_mutator=damaged)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

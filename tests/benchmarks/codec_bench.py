"""The codecs alone: µs of CPU time to encode and decode one record, compiled and by fastavro.

``python -m tests.benchmarks.codec_bench [--seconds 0.5]`` prints a table; its last line is one JSON object. The
events are the golden ones named ``full`` and ``minimal``; the rows are those of the worked examples: the first, the
median and the largest by size. Each figure is the best of five runs, so that a busy machine counts less.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from schemas.codec import Codec
from schemas.codec.build import build
from schemas.codec.compiled import by_fastavro, load
from schemas.codec.events import PLAN as EVENTS
from schemas.golden import examples
from schemas.ids import SchemaIds
from streams.agents.state.plan import PLAN as ROWS
from streams.agents.state.plan import ROW, VERSION
from tests.agents.test_state_rows import states

RUNS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="CPU seconds for each figure")
    seconds = parser.parse_args().seconds
    for plan in (EVENTS, ROWS):
        build(plan)
    print(f"{'record':<34}{'bytes':>6}   {'decode µs':>20}   {'encode µs':>20}")
    print(f"{'':<40}   {'compiled  fastavro':>20}   {'compiled  fastavro':>20}   times faster")
    figures = {}
    for name, size, calls in _records():
        took = {what: _microseconds(call, seconds) for what, call in calls.items()}
        figures[name] = {"bytes": size, **{what: round(value, 3) for what, value in took.items()}}
        decode, encode = (took[f"{way}_fastavro_us"] / took[f"{way}_compiled_us"] for way in ("decode", "encode"))
        print(
            f"{name:<34}{size:>6}   {took['decode_compiled_us']:>10.2f}{took['decode_fastavro_us']:>10.1f}   "
            f"{took['encode_compiled_us']:>10.2f}{took['encode_fastavro_us']:>10.1f}   {decode:>5.0f} {encode:>5.0f}"
        )
    print(json.dumps({"codec_us": figures}))


def _records() -> Iterator[tuple[str, int, dict[str, Callable[[], Any]]]]:
    """Name, size, and for each figure what to call once for each record."""
    compiled, reference = Codec(SchemaIds(), "compiled"), Codec(SchemaIds(), "fastavro")
    for example in examples():
        if example.name.endswith(("/full", "/minimal")):
            wire, event = example.wire, example.event
            yield (
                example.name,
                len(wire),
                {
                    "decode_compiled_us": lambda wire=wire: compiled.decode(wire),  # type: ignore[misc]
                    "decode_fastavro_us": lambda wire=wire: reference.decode(wire),  # type: ignore[misc]
                    "encode_compiled_us": lambda event=event: compiled.encode(event),  # type: ignore[misc]
                    "encode_fastavro_us": lambda event=event: reference.encode(event),  # type: ignore[misc]
                },
            )
    ours, theirs = load(ROWS), by_fastavro(ROWS)
    prefix = bytes((VERSION,))
    rows = sorted(((theirs.encode[ROW](state, prefix), state) for state in states()), key=lambda row: len(row[0]))
    for name, (row, state) in {"smallest": rows[0], "median": rows[len(rows) // 2], "largest": rows[-1]}.items():
        yield (
            f"row of the playback table/{name}",
            len(row),
            {
                "decode_compiled_us": lambda row=row: ours.decode[ROW, VERSION](row, 1),  # type: ignore[misc]
                "decode_fastavro_us": lambda row=row: theirs.decode[ROW, VERSION](row, 1),  # type: ignore[misc]
                "encode_compiled_us": lambda state=state: ours.encode[ROW](state, prefix),  # type: ignore[misc]
                "encode_fastavro_us": lambda state=state: theirs.encode[ROW](state, prefix),  # type: ignore[misc]
            },
        )


def _microseconds(call: Callable[[], Any], seconds: float) -> float:
    """CPU time of one call, the best of several runs."""
    begin = time.process_time()
    call()
    calls = max(10, int(seconds / RUNS / max(time.process_time() - begin, 1e-6)))
    best = float("inf")
    for _ in range(RUNS):
        begin = time.process_time()
        for _ in range(calls):
            call()
        best = min(best, (time.process_time() - begin) / calls)
    return best * 1e6


if __name__ == "__main__":
    main()

"""`playhead decide FILE|-`: what the playback rules make of reports, as JSON lines. Needs no service.

Input: one report or `{"reports":[…]}` a line; blank lines are skipped. Output, one JSON object a line: for each
report `{"type":"decision","index",…,"state"}` with index from 0 over reports and state null when rejected, then
for each key, in order of first appearance, `{"type":"final","state"}`. What is not a report is a rejected
decision, never a traceback; its neighbours go on. Exit 0 when the file could be read, whatever is in it; 2 when
it could not or the policy is unknown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, NoReturn

import typer

from schemas.limits import JSON_DEPTH_MAX
from streams.domain.playback import Decision
from streams.domain.playback import decide as judge
from streams.domain.policy import PLAYTHROUGH, POLICIES, Policy
from streams.domain.reading import read_report, received_at_of
from streams.domain.report import Rejected
from streams.domain.state import State, shown
from streams.domain.timekeeping import in_milliseconds
from streams.domain.words import Reason, Verdict

_BOM = b"\xef\xbb\xbf"


def decide_lines(lines: Iterable[bytes], policy: Policy = PLAYTHROUGH) -> Iterator[dict[str, object]]:
    """The objects to print, one decision for each report as it is read, then one final for each key.

    Never raises for what a line holds. Holds one state for each key (user, media) met.
    """
    states: dict[tuple[str, str], State] = {}
    received_at: int | None = None
    for index, value in enumerate(_values(lines)):
        report = value if isinstance(value, Rejected) else read_report(value, previous_received_at=received_at)
        if isinstance(report, Rejected):
            received_at = received_at_of(value) or received_at
            yield _decision(index, Decision(Verdict.REJECTED, None, report.reason, event_id=report.event_id))
            continue
        received_at = in_milliseconds(report.received_at)[0]
        key = (report.user, report.media)
        decision = judge(states.get(key), report, policy)
        if decision.state is not None:
            states[key] = decision.state
        yield _decision(index, decision)
    for state in states.values():
        yield {"type": "final", "state": shown(state)}


def run(stream: BinaryIO, policy: Policy = PLAYTHROUGH) -> Iterator[dict[str, object]]:
    """`decide_lines` of an open file."""
    return decide_lines(stream, policy)


def decide(
    file: Annotated[str, typer.Argument(help="A file of JSON lines, or - for standard input.")] = "-",
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(sorted(POLICIES))}.")] = PLAYTHROUGH.name,
) -> None:
    """Print what the playback rules decide about reports, as JSON lines."""
    if policy not in POLICIES:
        _refuse(f"unknown policy; the policies are {', '.join(sorted(POLICIES))}")
    try:
        if file == "-":
            _print(run(sys.stdin.buffer, POLICIES[policy]))
        else:
            with Path(file).open("rb") as stream:
                _print(run(stream, POLICIES[policy]))
    except BrokenPipeError:  # whoever reads the output has enough; click ends quietly
        raise
    except OSError as error:
        _refuse(f"{file}: {error.strerror}")


def _print(objects: Iterator[dict[str, object]]) -> None:
    for line in objects:
        # Plain ASCII: no terminal's encoding, and no reader that splits lines at U+2028, can break a line.
        typer.echo((json.dumps(line) + "\n").encode(), nl=False)


def _refuse(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(2)


def _decision(index: int, decision: Decision) -> dict[str, object]:
    rejected = decision.verdict is Verdict.REJECTED or decision.state is None
    return {
        "type": "decision",
        "index": index,
        "event_id": decision.event_id,
        "verdict": decision.verdict.value,
        "reason": decision.reason,
        "notes": [note.value for note in decision.notes],
        "state": None if rejected or decision.state is None else shown(decision.state),
    }


def _values(lines: Iterable[bytes]) -> Iterator[object]:
    """The reports of all lines as JSON values; a Rejected for what is not JSON."""
    for line in lines:
        text = line.strip().removeprefix(_BOM).strip()
        if not text:
            continue
        value = _load(text)
        if isinstance(value, dict) and isinstance(value.get("reports"), list):
            yield from value["reports"]
        else:
            yield value


def _load(text: bytes) -> object:
    try:
        value: object = json.loads(text.decode(), parse_constant=_no_constant)
    except RecursionError:
        return Rejected(Reason.TOO_DEEP, f"nested deeper than {JSON_DEPTH_MAX} levels")
    except ValueError:  # not UTF-8, not JSON, NaN, or a number of thousands of digits
        return Rejected(Reason.BAD_JSON, "the line is not valid JSON")
    if _is_deeper_than(value, JSON_DEPTH_MAX):
        return Rejected(Reason.TOO_DEEP, f"nested deeper than {JSON_DEPTH_MAX} levels")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _is_deeper_than(value: object, levels: int) -> bool:
    layer = _containers([value])
    for _ in range(levels):
        if not layer:
            return False
        layer = _containers(inner for item in layer for inner in (item.values() if isinstance(item, dict) else item))
    return bool(layer)


def _containers(values: Iterable[object]) -> list[dict[str, object] | list[object]]:
    return [value for value in values if isinstance(value, dict | list)]

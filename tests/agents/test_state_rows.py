"""Rows of the playback table: pinned bytes, and a schema that has what the state has."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from schemas.codec.compiled import by_fastavro
from schemas.codec.plan import Coded
from streams.agents import state as rows
from streams.agents.state.plan import PLAN, ROW
from streams.domain import state as domain
from streams.domain.playback import decide
from streams.domain.reading import read_report
from streams.domain.report import Report
from streams.domain.state import State

HERE = Path(__file__).parent
GOLDEN = sorted((HERE / "golden").glob("v*/*.hex"))
CASES = sorted((HERE.parent / "examples" / "decide").glob("*.json"))


def states() -> list[State]:
    """Every state the worked examples pass through."""
    found: list[State] = []
    for case in CASES:
        kept: dict[tuple[str, str], State] = {}
        for value in json.loads(case.read_text("utf-8"))["reports"]:
            report = read_report(value) if "__raw__" not in value else None
            if isinstance(report, Report):
                after = decide(kept.get((report.user, report.media)), report).state
                if after is not None:
                    kept[report.user, report.media] = after
                    found.append(after)
    return found


def test_given_any_state_of_the_examples_its_row_reads_back_the_same() -> None:
    met = states()
    assert len(met) > 100
    for state in met:
        assert rows.decode(rows.encode(state)) == state


def test_given_the_examples_every_part_of_a_state_is_among_them() -> None:
    """So that the test above speaks of all fields."""
    met = states()
    for part in ("pending", "conflict", "previous_epoch", "command_time", "sessions", "event_ids"):
        assert any(getattr(state, part) for state in met), part


def test_the_schema_has_the_fields_of_the_state_in_their_order_and_type() -> None:
    document = json.loads((Path(rows.__file__).parent / f"PlaybackState.v{rows.VERSION}.avsc").read_text("utf-8"))
    assert document["fields"] == _fields(State, set())


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_given_a_row_of_any_version_it_is_read_as_it_was_meant(golden: Path) -> None:
    meant = golden.with_suffix(".txt").read_text("utf-8").strip()
    assert repr(rows.decode(bytes.fromhex(golden.read_text("ascii")))) == meant


def test_given_a_row_of_this_version_its_bytes_are_pinned() -> None:
    newest = [golden for golden in GOLDEN if golden.parent.name == f"v{rows.VERSION}"]
    assert newest
    for golden in newest:
        row = bytes.fromhex(golden.read_text("ascii"))
        assert rows.encode(rows.decode(row)) == row


def test_given_a_row_of_a_newer_build_it_is_refused_with_what_to_do() -> None:
    row = rows.encode(State(user="u", media="m"))
    with pytest.raises(rows.UnknownStateVersion, match="this build knows up to"):
        rows.decode(bytes((rows.VERSION + 1,)) + row[1:])


def test_given_a_damaged_row_it_is_never_taken_for_a_state() -> None:
    row = rows.encode(State(user="u", media="m"))
    for damaged in (row[:-1], row + b"\0"):
        with pytest.raises((ValueError, EOFError, IndexError)):
            rows.decode(damaged)


#: The state of a build to come, with one more field.
Later: Any = make_dataclass(
    "Later",
    [
        *((known.name, known.type, field(default=known.default)) for known in fields(State)),
        ("rewatched", int, field(default=0)),
    ],
    frozen=True,
    slots=True,
    kw_only=True,
)


def test_given_a_row_of_this_version_a_later_build_upgrades_it_and_this_one_refuses_its_rows() -> None:
    (coded,) = PLAN.coded
    schema = json.loads(coded.writers[rows.VERSION])
    schema["fields"].append({"name": "rewatched", "type": "long", "default": 0})
    later = Coded(
        name=ROW,
        writers={**coded.writers, rows.VERSION + 1: json.dumps(schema)},
        writes=rows.VERSION + 1,
        classes={**coded.classes, ROW: Later},
    )
    coders = by_fastavro(replace(PLAN, coded=(later,)))
    golden = [golden for golden in GOLDEN if golden.parent.name == f"v{rows.VERSION}"]
    assert golden
    for path in golden:
        row = bytes.fromhex(path.read_text("ascii"))
        known = rows.decode(row)
        upgraded = coders.decode[ROW, rows.VERSION](row, 1)
        assert upgraded == Later(**{name: getattr(known, name) for name in State.__dataclass_fields__})
        written = coders.encode[ROW](upgraded, bytes((rows.VERSION + 1,)))
        with pytest.raises(rows.UnknownStateVersion, match="Upgrade Playhead"):
            rows.decode(written)


def test_given_a_row_it_is_readable_as_json_by_the_names_of_its_fields() -> None:
    for state in states()[:50]:
        shown = json.loads(json.dumps(rows.readable(rows.encode(state))))
        assert list(shown) == list(State.__dataclass_fields__)
        assert shown["position_ms"] == state.position_ms
        assert [session["key"] for session in shown["sessions"]] == [session.key for session in state.sessions]
        orders = [session.position_order for session in state.sessions if session.position_order is not None]
        read = [session["position_order"] for session in shown["sessions"] if session["position_order"] is not None]
        assert read == [{"sequence": order.sequence, "event_time": order.event_time} for order in orders]


def _fields(kind: Any, seen: set[str]) -> list[dict[str, Any]]:
    names = getattr(kind, "_fields", None) or list(kind.__dataclass_fields__)
    hints = typing.get_type_hints(kind)
    return [{"name": name, "type": _avro(hints[name], seen)} for name in names]


def _avro(hint: Any, seen: set[str]) -> Any:
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (argument for argument in typing.get_args(hint) if argument is not type(None))
        return ["null", _avro(inner, seen)]
    if origin is tuple:
        return {"type": "array", "items": _avro(typing.get_args(hint)[0], seen)}
    plain: dict[Any, str] = {int: "long", str: "string", bool: "boolean"}
    if hint in plain:
        return plain[hint]
    assert getattr(domain, hint.__name__) is hint
    if hint.__name__ in seen:
        return hint.__name__
    seen.add(hint.__name__)
    return {"type": "record", "name": hint.__name__, "fields": _fields(hint, seen)}

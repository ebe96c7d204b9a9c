"""Log lines: one JSON object a line, nothing in a value can forge, hide or bloat one."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from streams.runtime import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    stream = io.StringIO()
    logs.configure("tester", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.configure(**before)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    stream.getvalue().encode("utf-8")
    return [json.loads(line, parse_constant=pytest.fail) for line in stream.getvalue().splitlines()]


def test_a_line_has_role_time_level_and_the_correlation_id(stream: io.StringIO) -> None:
    with logs.correlated("req-1", source="tv"):
        logs.get("x").info("taken", count=3)
    logs.get("x").info("later")
    first, second = lines(stream)
    assert first | {"time": ""} == {
        "role": "tester",
        "event": "taken",
        "count": 3,
        "correlation_id": "req-1",
        "source": "tv",
        "logger": "x",
        "level": "info",
        "time": "",
    }
    assert "correlation_id" not in second


def test_the_standard_librarys_records_are_json_too(stream: io.StringIO) -> None:
    logging.getLogger("lib").warning("bad %s", "na\nme", extra={"peer": "a\u202eb"})
    [line] = lines(stream)
    assert line["event"] == "bad na\\u000ame"
    assert line["peer"] == "a\\u202eb"
    assert line["role"] == "tester"


HOSTILE = ["a\nb", "a\r\nb", "\x1b[2K", "\u202egnp.exe", "\u2066x\u2069", "a\u2028b", "\x00", "\x9b31m", "\ud800"]


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_a_hostile_text_is_escaped_at_any_depth(stream: io.StringIO, text: str) -> None:
    logs.get("x").info("e", flat=text, listed=[text], deep={"k": {text: (text,)}}, odd=Exception(text))
    [line] = lines(stream)
    assert len(stream.getvalue().splitlines()) == 1
    assert text not in stream.getvalue()
    assert line["flat"] == line["listed"][0] == logs.escape(text)


def test_a_traceback_keeps_its_lines_and_escapes_the_rest(stream: io.StringIO) -> None:
    try:
        raise ValueError("name \u202e\x1b[2K end")
    except ValueError:
        logs.get("x").exception("failed")
    [line] = lines(stream)
    assert line["exception"].splitlines()[-1] == "ValueError: name \\u202e\\u001b[2K end"
    assert line["exception"].startswith("Traceback")


def test_long_values_are_cut(stream: io.StringIO) -> None:
    logs.get("x").info("e", long="x" * 100_000, many=list(range(10_000)), deep=[[[[[["x" * 9_000]]]]]])
    assert len(stream.getvalue()) < 8_000


def test_not_a_number_is_still_json(stream: io.StringIO) -> None:
    logs.get("x").info("e", rate=float("nan"), most=float("inf"))
    assert lines(stream)[0]["rate"] == "nan"


def test_web_access_lines_are_off_because_they_hold_tokens(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.access").error("GET /hooks/jellyfin/tok3n")
    assert stream.getvalue() == ""


@given(st.text())
def test_an_escaped_text_is_printable_on_one_line(text: str) -> None:
    escaped = logs.escape(text)
    assert len(escaped.splitlines()) <= 1
    escaped.encode("utf-8")


def test_a_quick_line_is_the_same_line_escaped_and_correlated() -> None:
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    stream = io.StringIO()
    try:
        logs.configure("test", stream=stream)
        with logs.correlated("c-1"):
            logs.get("playhead.access").info("request", route="/x\n\x1b", status=202, ms=1.5, token_id=None)
            logs.quick("playhead.access", "request", route="/x\n\x1b", status=202, ms=1.5, token_id=None)
        usual, quick = (json.loads(line) for line in stream.getvalue().splitlines())
        assert usual.pop("time")[-1] == quick["time"][-1] == "Z"
        assert len(quick.pop("time")) == 27
        assert quick == usual
        logs.configure("test", level="WARNING", stream=stream)
        logs.quick("playhead.access", "request", status=200)
        assert len(stream.getvalue().splitlines()) == 2
        root.addHandler(logging.NullHandler())
        root.setLevel("INFO")
        logs.quick("playhead.access", "request", status=201)
        assert '"status": 201' in stream.getvalue()
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.configure(**before)

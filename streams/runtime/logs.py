"""JSON lines on stderr, one event a line, every line with the correlation id of the work it belongs to.

Control and bidirectional characters are escaped, long values cut, so a crafted name can neither forge a line
nor hide one. Nobody logs payloads, names or addresses; people are known by ``user_ref`` only.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import structlog

VALUE_CHARS_MAX = 2_000
# C0 and C1 controls, line and paragraph separators, bidirectional marks and isolates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_TRACE_CHARS_MAX = 8_000


def escape(text: str, chars_max: int = VALUE_CHARS_MAX) -> str:
    """``text`` made safe for a log line: unsafe characters as \\uXXXX, cut at ``chars_max``."""
    cut = text if len(text) <= chars_max else text[:chars_max] + "…"
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", cut)


def _safe(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for key, value in event.items():
        if isinstance(value, str):
            # Line breaks of a traceback are data inside a JSON string; the encoder escapes them.
            event[key] = value[-_TRACE_CHARS_MAX:] if key == "exception" else escape(value)
        elif not isinstance(value, int | float | bool | type(None) | list | tuple | dict):
            event[key] = escape(str(value))
    return event


def configure(role: str, *, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send structlog's and the standard library's records to ``stream`` (stderr) as JSON lines.

    Call once, in a process's entry point. ``role`` stands in every line.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        lambda _, __, event: {"role": role, **event},
        _safe,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *shared],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Access lines would hold source tokens of the path; the web layer writes its own.
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _dumps(value: Any, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; works (plainly) before ``configure``."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger


@contextmanager
def correlated(correlation_id: str, **more: str | int) -> Iterator[None]:
    """Every line logged inside carries ``correlation_id`` (and ``more``)."""
    with structlog.contextvars.bound_contextvars(correlation_id=correlation_id, **more):
        yield

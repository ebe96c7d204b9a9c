"""JSON lines on stderr, one event a line, every line with the correlation id of the work it belongs to.

Control and bidirectional characters are escaped, long values cut, so a crafted name can neither forge a line
nor hide one. Nobody logs payloads, names or addresses; people are known by ``user_ref`` only.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog

VALUE_CHARS_MAX = 2_000
# C0 and C1 controls, line and paragraph separators, bidirectional marks and isolates, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_TRACE_CHARS_MAX = 8_000
_DEPTH_MAX, _ITEMS_MAX = 4, 100
_direct: tuple[str, logging.StreamHandler[TextIO]] | None = None


def escape(text: str, chars_max: int = VALUE_CHARS_MAX) -> str:
    """``text`` made safe for a log line: unsafe characters as \\uXXXX, cut at ``chars_max``."""
    cut = text if len(text) <= chars_max else text[:chars_max] + "…"
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", cut)


def _safe(_: Any, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {
        # The end of a traceback says most; its own line breaks are data inside a JSON string.
        key: _trace(value) if key == "exception" and isinstance(value, str) else _plain(value, 0)
        for key, value in event.items()
    }


def _trace(text: str) -> str:
    return "\n".join(escape(line) for line in text[-_TRACE_CHARS_MAX:].split("\n"))


def _plain(value: Any, depth: int) -> Any:
    """``value`` as JSON types, every text in it escaped and cut, at any depth."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float():
            return value
        case str():
            return escape(value)
        case dict() if depth < _DEPTH_MAX:
            return {escape(str(key)): _plain(item, depth + 1) for key, item in list(value.items())[:_ITEMS_MAX]}
        case list() | tuple() if depth < _DEPTH_MAX:
            return [_plain(item, depth + 1) for item in value[:_ITEMS_MAX]]
        case _:
            return escape(str(value))


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
    global _direct
    _direct = role, handler
    # Access lines would hold source tokens of the path; the web layer writes its own.
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)


def quick(name: str, event: str, **values: Any) -> None:
    """``get(name).info(event, **values)`` for a line written so often that its cost counts; a fifth of the work.

    The same line, unless more than ``configure``'s handler listens: then it takes the usual way.
    """
    logger = logging.getLogger(name)
    if not logger.isEnabledFor(logging.INFO):
        return
    if _direct is None or logging.getLogger().handlers != [_direct[1]]:
        get(name).info(event, **values)
        return
    role, handler = _direct
    said = {"role": role, **structlog.contextvars.get_contextvars(), **values, "event": event}
    line = {key: _plain(value, 0) for key, value in said.items()}
    now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    text = _dumps({**line, "logger": name, "level": "info", "time": now})
    with handler.lock or nullcontext():
        handler.stream.write(text + "\n")
        handler.flush()


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

"""Socket.IO 5 over Engine.IO 4, by websocket alone: as much of it as it takes to hear events.

    0{…} opened → 40 may I come in? → 40{…} entered │ 42["name", …] event │ 2 ping → 3 pong │ 41, 1 the end

Binary events are left out, so nothing is ever gathered from several messages. Sources: the Engine.IO protocol 4 and
Socket.IO protocol 5 documents.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from streams.runtime.json_text import BadJson, load
from streams.upstream.errors import CredentialsRefused, UpstreamAway
from streams.upstream.sockets import Socket

PARAMS: Final = (("EIO", "4"), ("transport", "websocket"))
ENTERED: Final = "connect"
"""The event that says that others may be sent now; no server may name one of its own so."""


@dataclass(frozen=True, slots=True)
class Event:
    """``name`` "": a message that can't be read. ``data``: the event's first value."""

    name: str
    data: Any = None


async def events(connection: Socket) -> AsyncIterator[Event]:
    """Everything that comes, ENTERED first, until the connection ends. Raises UpstreamError."""
    while True:
        text = await connection.receive() or ""
        match text[:1], text[1:2]:
            case "0", _:
                await connection.send("40")
            case "2", _:
                await connection.send("3" + text[1:])
            case ("1", _) | ("4", "1"):
                raise UpstreamAway("the server ended the connection")
            case "4", "4":
                raise CredentialsRefused("the server refuses the connection")
            case "4", "0":
                yield Event(ENTERED)
            case "4", "2":
                yield _event(text[2:])
            case _:
                yield Event("")


def event(name: str, *values: object) -> str:
    """The message that emits an event."""
    return "42" + json.dumps([name, *values])


def _event(text: str) -> Event:
    try:
        # With a number in front the server wants an answer, which nobody here has.
        value = load(text.lstrip("0123456789"))
    except BadJson:
        return Event("")
    match value:
        case [str(name), *values] if name != ENTERED:
            return Event(name, values[0] if values else None)
        case _:
            return Event("")

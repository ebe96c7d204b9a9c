"""How a hook wraps its JSON: bare, as a multipart part, or as a field of an urlencoded form."""

from __future__ import annotations

from streams.ingest.hooks.checks import Refuse
from streams.ingest.hooks.documents import decode, load_form
from streams.ingest.hooks.multipart import looks_multipart, text_part


def payload_text(body: bytes, name: str) -> str:
    """The JSON text inside a body; `name` is the part's or field's name. Refuses when there is none.

    The wrapping is told by the body's first bytes: senders' content types are not to be relied on.
    """
    if looks_multipart(body):
        return decode(text_part(body, name))
    text = decode(body)
    if text.lstrip().startswith(("{", "[")):
        return text
    for key, value in load_form(text):
        if key == name:
            return value
    raise Refuse("no_payload", f"neither JSON nor a field named {name}")

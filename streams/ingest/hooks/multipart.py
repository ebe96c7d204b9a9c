"""One text field out of a multipart/form-data body, without reading the pictures beside it.

Media servers send a JSON part and now and then a poster. The boundary is read from the body's first
line, so that a body saved to a file can be parsed without its headers.
"""

from __future__ import annotations

import re

from schemas.limits import BODY_BYTES_MAX
from streams.ingest.hooks.checks import Refuse

PARTS_MAX = 8
PART_HEADERS_MAX_BYTES = 4096
BOUNDARY_MAX_BYTES = 200

_NAME = re.compile(rb'^content-disposition:[^\r\n]*?[; \t]name="?([^"\r\n;]*)"?', re.IGNORECASE | re.MULTILINE)
_FILE = re.compile(rb"^content-(?:disposition:[^\r\n]*[; \t]filename\*?=|type:\s*image/)", re.IGNORECASE | re.MULTILINE)


def looks_multipart(body: bytes) -> bool:
    """True when the body starts with a boundary line."""
    return body.lstrip(b"\r\n").startswith(b"--")


def text_part(body: bytes, name: str) -> bytes:
    """The content of the first part of that name which is no file; refuses when there is none.

    Lines may end with CRLF or LF. At most 8 parts are looked at, files only skipped over.
    """
    if len(body) > BODY_BYTES_MAX:
        raise Refuse("too_large", f"the body is over {BODY_BYTES_MAX} bytes")
    body = body.lstrip(b"\r\n")
    first_line, newline, _ = body.partition(b"\n")
    marker = first_line.rstrip(b"\r \t")
    if not newline or not 2 < len(marker) <= BOUNDARY_MAX_BYTES + 2:
        raise Refuse("bad_multipart", "the body's first line is no boundary")
    # A delimiter stands at a line's start and ends its line: "--x" inside a picture is not one.
    delimiter = re.compile(rb"(?:\A|\r?\n)" + re.escape(marker) + rb"(--)?[ \t]*(?:\r?\n|\Z)")
    at = len(first_line) + 1
    for _ in range(PARTS_MAX):
        end = delimiter.search(body, at - 1)
        if end is None:
            raise Refuse("bad_multipart", "a part is not closed")
        content = _content(body[at : end.start()], name)
        if content is not None:
            return content
        if end.group(1) is not None:
            raise Refuse("no_payload", f"no part is named {name}")
        at = end.end()
    raise Refuse("too_many_parts", f"over {PARTS_MAX} parts and none of them named {name}")


def _content(part: bytes, name: str) -> bytes | None:
    """The content of a part when it is the wanted one."""
    blank = re.search(rb"\r?\n\r?\n", part[:PART_HEADERS_MAX_BYTES])
    if blank is None:
        return None
    headers = part[: blank.start()]
    found = _NAME.search(headers)
    if found is None or found.group(1) != name.encode() or _FILE.search(headers):
        return None
    return part[blank.end() :]

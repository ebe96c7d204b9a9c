"""Bodies in, receipts out: what the ingest routes have in common, and how it is documented."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from typing import Annotated

from fastapi import Header, Request
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from schemas.limits import REPORTS_PER_REQUEST_MAX
from streams.ingest.door import Receipt
from streams.ingest.hooks import Census, Result, parse
from streams.runtime import metrics
from streams.runtime.problems import Problem, response_of

# Larger bodies are parsed beside the event loop, so that one batch does not hold up everybody's heartbeat.
_PARSE_INLINE_BYTES = 32 * 1024
_KEY = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?")

_KEY_TEXT = (
    "Any text of 1 to 256 printable ASCII characters, unique to this request. Reports without an event_id get one made "
    "of it, so sending the same request again changes nothing."
)
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", description=_KEY_TEXT)]
IDEMPOTENCY_KEY: dict[str, object] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": _KEY_TEXT,
    "schema": {"type": "string"},
}
"""The same for a route that reads the header itself."""


class RejectedReport(BaseModel):
    index: int = Field(description="Place in the request, from 0.")
    reason: str = Field(description="A stable word.", examples=["missing_position"])
    detail: str = Field(description="One sentence.", examples=["a progress report needs a position"])


class Accepted(BaseModel):
    """What became of a request's reports. Accepted ones are on disk and survive anything that happens here."""

    accepted: int = Field(examples=[1])
    event_ids: list[str] = Field(
        description="One for each accepted report, in order; GET /v1/events/{event_id} tells what became of it.",
        examples=[["tv-17:s3:42"]],
    )
    rejected: list[RejectedReport]


class IgnoredCall(BaseModel):
    reason: str = Field(examples=["no_news"])
    detail: str


class HookAnswer(Accepted):
    """As for reports; and what was understood and not used."""

    ignored: list[IgnoredCall] = []
    observations: int = Field(0, description="News of items of the library, accepted as reports are.")
    observations_ignored: int = Field(0, description="News of what is no item: a series, an album, a folder.")


def checked_key(key: str | None) -> str | None:
    """The Idempotency-Key, if it is one; raises Problem 400."""
    if key is not None and not _KEY.fullmatch(key):
        raise Problem(400, "bad_idempotency_key", "Idempotency-Key is 1 to 256 printable ASCII characters.")
    return key


def check_content_type(request: Request, taken: Collection[str], *, needed: bool) -> str | None:
    """The content type as sent, if its media type is among ``taken``; raises Problem 415."""
    given = request.headers.get("content-type")
    media_type = (given or "").partition(";")[0].strip().lower()
    if media_type in taken or (not media_type and not needed):
        return given
    if media_type.endswith("+json") and "application/json" in taken:
        return given
    raise Problem(415, "content_type", f"Send one of: {', '.join(sorted(taken))}.", headers={"Connection": "close"})


async def results_of(format: str, request: Request, content_type: str | None) -> list[Result]:
    """The parsed body; unknown fields are counted. Raises Problem 413 for more than REPORTS_PER_REQUEST_MAX reports."""
    body = await request.body()
    census = Census()
    if len(body) <= _PARSE_INLINE_BYTES:
        results = parse(format, body, content_type, census)
    else:
        results = await asyncio.to_thread(parse, format, body, content_type, census)
    metrics.UNKNOWN_FIELDS.labels(format).inc(census.unknown)
    too_many = len(results) == 1 and getattr(results[0], "reason", None) == "too_many"
    if too_many or len(results) > REPORTS_PER_REQUEST_MAX:
        raise Problem(
            413, "too_many_reports", f"At most {REPORTS_PER_REQUEST_MAX} reports a request; nothing was accepted."
        )
    return results


def answer(receipt: Receipt, **more: object) -> Response:
    """202 when anything was accepted or there was nothing to refuse, else 422 with the reasons."""
    rejected: Sequence[dict[str, object]] = [
        {"index": one.index, "reason": one.reason, "detail": one.detail} for one in receipt.rejected
    ]
    if rejected and not receipt.accepted:
        return response_of(
            Problem(422, "nothing_accepted", "No report of this request can be used.", rejected=rejected)
        )
    document = {"accepted": receipt.accepted, "event_ids": receipt.event_ids, "rejected": rejected, **more}
    return JSONResponse(document, 202)

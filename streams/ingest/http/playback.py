"""``POST /v1/playback``: Playhead's own format, for clients and backends."""

from __future__ import annotations

from typing import Any, get_args

from fastapi import APIRouter, Request
from starlette.responses import Response

from streams.ingest.door import Door
from streams.ingest.hooks import ParsedReport, Rejected
from streams.ingest.hooks.result import Kind
from streams.ingest.http import examples
from streams.ingest.http.answers import IDEMPOTENCY_KEY, Accepted, answer, check_content_type, checked_key, results_of
from streams.runtime.tokens import Scope
from streams.runtime.web import BEARER_DOCUMENTED, PROBLEM_RESPONSES, Guard, bearer, correlation_id

_TAKEN = ("application/json", "application/x-ndjson")

_REPORT: dict[str, Any] = {
    "type": "object",
    "title": "Report",
    "description": "One statement about playback. user, kind and one of media and upstream_media are needed; "
    "position_ms too for progress, seek and set_position. Anything else may be absent or null.",
    "required": ["user", "kind"],
    "properties": {
        "event_id": {"type": "string", "description": "Unique per source and item; makes repeats harmless."},
        "source": {"type": "string", "description": "If given, must be the token's source."},
        "user": {"type": "string", "description": "The source's own id of the person, or our user_ref."},
        "media": {"type": "string", "description": "Our media_id, or the source's own id of the item."},
        "upstream_media": {"type": "string", "description": "The source's own id, when media is not given."},
        "media_kind": {"enum": ["video", "music", "audiobook", "podcast", "live"]},
        "session_id": {"type": "string", "description": "One play session of the sender."},
        "device_id": {"type": "string"},
        "sequence": {"type": "integer", "minimum": 0, "description": "Counts within the session; puts it in order."},
        "kind": {"enum": list(get_args(Kind))},
        "position_ms": {"type": "integer", "minimum": 0, "maximum": 30 * 24 * 3600 * 1000},
        "duration_ms": {"type": "integer"},
        "occurred_at": {
            "description": "RFC 3339 or epoch ms, by the device's clock.",
            "oneOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}],
        },
        "automated": {"type": "boolean", "description": "Extrapolated by a server, not said by a player."},
        "failed": {"type": "boolean", "description": "Playback failed."},
        "played": {"type": "boolean", "description": "The sender claims completion."},
        "listened_ms": {"type": "integer", "description": "Total of this session so far."},
        "origin": {"enum": ["client", "webhook", "poll", "import", "command"], "default": "client"},
    },
}
_PROGRESS = {
    "event_id": "tv-17:s3:42",
    "user": "ana",
    "media": "m-81",
    "media_kind": "video",
    "session_id": "s3",
    "device_id": "tv-17",
    "sequence": 42,
    "kind": "progress",
    "position_ms": 1_830_000,
    "duration_ms": 6_600_000,
    "occurred_at": "2026-11-29T20:15:00Z",
}
_BODY: dict[str, Any] = {
    "required": True,
    "content": {
        "application/json": {
            "schema": {
                "oneOf": [
                    _REPORT,
                    {
                        "type": "object",
                        "title": "Reports",
                        "required": ["reports"],
                        "properties": {"reports": {"type": "array", "maxItems": 1000, "items": {"type": "object"}}},
                    },
                ]
            },
            "examples": {
                "progress": {"summary": "A player's heartbeat", "value": _PROGRESS},
                "batch": {
                    "summary": "What a phone played offline, sent later",
                    "value": {
                        "reports": [
                            {**_PROGRESS, "event_id": "phone:s9:1", "sequence": 1, "kind": "start", "position_ms": 0},
                            {**_PROGRESS, "event_id": "phone:s9:2", "sequence": 2, "kind": "stop"},
                        ]
                    },
                },
                "command": {
                    "summary": "A person ticks it off",
                    "value": {"user": "ana", "media": "m-81", "kind": "mark_played"},
                },
            },
        }
    },
}


def router(door: Door, guard: Guard) -> APIRouter:
    routes = APIRouter(tags=["ingest"])

    @routes.post(
        "/v1/playback",
        status_code=202,
        summary="Report playback",
        response_model=Accepted,
        responses={
            **PROBLEM_RESPONSES,
            202: {
                "description": "Accepted, some of it at least: on disk, whatever happens next.",
                "content": {
                    "application/json": {
                        "examples": {
                            "all": {"summary": "All of it", "value": examples.TAKEN},
                            "part": {"summary": "One of two", "value": examples.IN_PART},
                        }
                    }
                },
            },
        },
        # Read below and not declared as parameters: solving those costs more than the report does.
        openapi_extra={"requestBody": _BODY, "parameters": [IDEMPOTENCY_KEY], **BEARER_DOCUMENTED},
    )
    async def report_playback(request: Request) -> Response:
        """One report, or up to 1,000 as `{"reports": […]}`; bad ones are refused alone, by index.

        Answered only when the accepted ones are on disk. After a 503, or no answer, send the same again: with
        an `event_id` in each report, or an `Idempotency-Key`, nothing counts twice. The source is the token's.
        """
        async with guard.admitted(request, bearer(request), Scope.REPORT) as principal:
            key = checked_key(request.headers.get("Idempotency-Key"))
            content_type = check_content_type(request, _TAKEN, needed=True)
            results = await results_of("native", request, content_type)
            reports = [one for one in results if isinstance(one, ParsedReport | Rejected)]
            receipt = await door.take(
                principal, reports, format="native", correlation_id=correlation_id(request), idempotency_key=key
            )
            return answer(receipt)

    return routes

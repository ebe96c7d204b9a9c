"""ListenBrainz: listens of one person; the same track at the same second is one listen."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, Response

TOKEN = "0b5e5e5e-listen"
USER = "ana"


class FakeListenBrainz:
    """``counts_twice``: one that speaks like it, and takes each submission for another listen."""

    def __init__(self) -> None:
        self.listens: list[dict[str, Any]] = []
        self.counts_twice = False
        self.app = FastAPI()
        self.app.add_api_route("/1/user/{user}/listens", self._listens)
        self.app.add_api_route("/1/submit-listens", self._submit, methods=["POST"])

    async def _listens(self, request: Request, user: str, min_ts: int, count: int) -> Response:
        found = [one for one in self.listens if one["listened_at"] > min_ts][:count]
        return JSONResponse({"payload": {"count": len(found), "user_id": user, "listens": found}})

    async def _submit(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Token {TOKEN}":
            return JSONResponse({"code": 401, "error": "Invalid authorization token."}, 401)
        document = await request.json()
        for one in document["payload"]:
            if not one["track_metadata"]["artist_name"] or not one["track_metadata"]["track_name"]:
                return JSONResponse({"code": 400, "error": "required fields"}, 400)
            if self.counts_twice or one not in self.listens:
                self.listens.append(one)
        return JSONResponse({"status": "ok"})

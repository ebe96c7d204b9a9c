"""ListenBrainz, and servers with its API, as the person whose token it is."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from streams.upstream.errors import BadAnswer, NotAllowed
from streams.upstream.http import Upstream

Json: TypeAlias = dict[str, Any]
LISTENS_MAX: Final = 100
_NAME = re.compile(r"[\w.@+-]{1,128}")


def headers(token: str) -> dict[str, str]:
    """What each request carries."""
    return {"Authorization": f"Token {token}"}


class ListenBrainz:
    """Every method raises UpstreamError."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def listens(self, user: str, after_s: int, before_s: int) -> list[Json]:
        """Listens of a person between two epoch seconds, both excluded; the newest LISTENS_MAX."""
        if not _NAME.fullmatch(user):
            raise NotAllowed("no name")
        # The server takes one bound only.
        answer = await self._upstream.get(
            f"/1/user/{user}/listens", [("min_ts", str(after_s)), ("count", str(LISTENS_MAX))]
        )
        payload = answer.value.get("payload") if isinstance(answer.value, dict) else None
        listens = payload.get("listens") if isinstance(payload, dict) else None
        if not isinstance(listens, list):
            raise BadAnswer("the server's answer has no listens")
        return [one for one in listens if isinstance(one, dict) and _before(one.get("listened_at"), before_s)]

    async def submit(self, listen: Json) -> None:
        """One listen, with its time."""
        await self._upstream.send("POST", "/1/submit-listens", body={"listen_type": "single", "payload": [listen]})


def _before(at: object, before_s: int) -> bool:
    return isinstance(at, int) and at < before_s

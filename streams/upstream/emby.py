"""Emby's REST API, with an API key: a person's data of an item.

Item ids are numbers as text; people's are guids. A POST of user data puts it in place of everything there was.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from streams.upstream.errors import BadAnswer, NotAllowed
from streams.upstream.http import Upstream

Json: TypeAlias = dict[str, Any]
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


def headers(token: str) -> dict[str, str]:
    """What each request carries."""
    return {"X-Emby-Token": token}


class Emby:
    """Every method raises UpstreamError."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def user_data(self, user: str, item: str) -> Json:
        """The person's data of one item."""
        answer = await self._upstream.get(_path(user, item))
        data = answer.value.get("UserData") if isinstance(answer.value, dict) else None
        if not isinstance(data, dict):
            raise BadAnswer("the server's answer has no UserData")
        return data

    async def set_user_data(self, user: str, item: str, data: Json) -> None:
        """Put ``data`` in place of the person's data of one item."""
        await self._upstream.send("POST", f"{_path(user, item)}/UserData", body=data)


def _path(user: str, item: str) -> str:
    if not _ID.fullmatch(user) or not _ID.fullmatch(item):
        raise NotAllowed("no id")
    return f"/Users/{user}/Items/{item}"

"""What an operator enters on a media server's own pages, so that it reports here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

# Ids, numbers and words only: no value that could hold a quote or a line break, for the plugin pastes them as they
# are. All quoted, for an absent one is pasted as nothing; "{{…}}" is the plugin's way to name a value.
_JELLYFIN_FIELDS: Final = (
    "NotificationType",
    "UserId",
    "ItemId",
    "ItemType",
    "RunTimeTicks",
    "PlaybackPositionTicks",
    "MediaSourceId",
    "DeviceId",
    "IsPaused",
    "IsAutomated",
    "PlayedToCompletion",
    "Played",
    "SaveReason",
    "UtcTimestamp",
    "Provider_imdb",
    "Provider_tmdb",
    "Provider_tvdb",
)
JELLYFIN_TEMPLATE: Final = json.dumps({name: "{{" + name + "}}" for name in _JELLYFIN_FIELDS}, indent=2)


@dataclass(frozen=True, slots=True)
class Pasting:
    """``address``: where the server sends to; ``header``: (name, value) to set there, None when it can set none;
    ``template``: text for its template box; ``steps``: what to do, in order."""

    steps: tuple[str, ...]
    address: str | None = None
    header: tuple[str, str] | None = None
    template: str | None = None


def pasting(kind: str, base: str, token: str) -> Pasting:
    """For a source of ``kind`` (one of runtime.tokens.SOURCE_KINDS). ``base``: this door's URL, without a slash."""
    bearer = ("Authorization", f"Bearer {token}")
    hook = f"{base}/hooks/{kind}"
    match kind:
        case "jellyfin":
            return Pasting(
                (
                    "In Jellyfin: Dashboard, Plugins, Webhook (from the catalogue), Add Generic Destination.",
                    "Webhook Url: the address below. Add Request Header: key Authorization, the value below.",
                    "Notification Type: Playback Start, Playback Progress, Playback Stop, User Data Saved, Item Added, "
                    "Item Deleted. User Filter: all. Item Type: all.",
                    "Tick Send All Properties; or leave it and paste the template below. Save.",
                ),
                hook,
                bearer,
                JELLYFIN_TEMPLATE,
            )
        case "plex":
            return Pasting(
                (
                    "In Plex (with a Plex Pass): Settings, Webhooks, Add Webhook: the address below. Save Changes.",
                    "Plex can set no header, so the token is part of the address: keep it out of a proxy's access log.",
                    "In the server's settings, Network: tick Webhooks.",
                ),
                f"{hook}/{token}",
            )
        case "emby":
            return Pasting(
                (
                    "In Emby: Settings, Notifications, Add Notification, Webhooks.",
                    "Url: the address below. Request content type: application/json.",
                    "Events: all of Playback and Users (mark played, mark unplayed), and New Media Added. Users: name "
                    "them all, for else Emby does not say whose it is. Save.",
                ),
                f"{hook}/{token}",
            )
        case "audiobookshelf":
            return Pasting(
                (
                    "Audiobookshelf sends no webhooks about playback: 'playhead poll' asks it.",
                    "A script or proxy that has its sessions or progress objects may send them to the address below.",
                ),
                hook,
                bearer,
            )
        case "listenbrainz":
            return Pasting(
                (
                    "In the player or server: ListenBrainz, custom or self-hosted server. Address: below.",
                    "Its token: the last word of the header below. (Navidrome: ListenBrainz.BaseURL is the address "
                    "with /1/ behind it; the token is entered in the person's own settings.)",
                ),
                base,
                ("Authorization", f"Token {token}"),
            )
        case "subsonic":
            return Pasting(
                (
                    "Subsonic servers send nothing: 'playhead poll' asks them.",
                    "Those that scrobble to ListenBrainz (Navidrome) can do that here, too: "
                    "'playhead source add listenbrainz', once for each person.",
                ),
            )
        case "files":
            return Pasting(("A folder sends nothing: it is scanned.",))
        case _:
            report = {"user": "ana", "media": "film-1", "kind": "progress", "position_ms": 60_000}
            return Pasting(
                (
                    "Send reports to the address below with the header below, for example:",
                    f"curl -H 'Authorization: Bearer {token}' --json '{json.dumps(report)}' {base}/v1/playback",
                ),
                f"{base}/v1/playback",
                bearer,
            )

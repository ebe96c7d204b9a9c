"""What `playhead source add` prints works as printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from streams.cli.pasting import JELLYFIN_TEMPLATE, pasting
from streams.ingest.hooks import ParsedReport, parse
from streams.ingest.http.hooks import FORMATS
from streams.runtime.tokens import SOURCE_KINDS

EXAMPLES = Path(__file__).parents[1] / "examples/parse/jellyfin"
TOKEN = "ph_" + "t" * 43


def rendered(values: dict[str, object]) -> bytes:
    """As the plugin does it: a value as .NET prints it, HTML-escaped quotes, an absent one as nothing."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1])
        return "" if found is None else str(found).replace('"', "&quot;")

    return re.sub(r"\{\{(\w+)\}\}", value, JELLYFIN_TEMPLATE).encode()


@pytest.mark.parametrize("name", ["progress-native-ticks", "start-native", "progress-template-strings"])
def test_the_jellyfin_template_gives_the_report_that_all_properties_give(name: str) -> None:
    body = (EXAMPLES / f"{name}.json").read_bytes()
    [wanted] = parse("jellyfin", body, "application/json")
    [found] = parse("jellyfin", rendered(json.loads(body)), "text/plain")
    assert isinstance(wanted, ParsedReport)
    assert found == wanted


def test_the_jellyfin_template_survives_titles_with_quotes_and_stopping_at_the_end() -> None:
    stop = {
        "NotificationType": "PlaybackStop",
        "Name": 'Say "No"',
        "Overview": "a\nb",
        "UserId": "3f1c0d5e-8a2b-4c6d-9e0f-112233445566",
        "ItemId": "a1b2c3d4-e5f6-0718-293a-4b5c6d7e8f90",
        "ItemType": "Movie",
        "RunTimeTicks": 66_000_000_000,
        "PlaybackPositionTicks": 65_000_000_000,
        "PlayedToCompletion": True,
        "IsPaused": False,
        "IsAutomated": False,
        "DeviceId": "tv",
    }
    [report] = parse("jellyfin", rendered(stop), "text/plain")
    assert isinstance(report, ParsedReport)
    assert (report.kind, report.played, report.position_ms) == ("stop", True, 6_500_000)


@pytest.mark.parametrize("kind", SOURCE_KINDS)
def test_every_kind_of_source_is_told_what_to_do_and_a_hook_has_the_doors_address(kind: str) -> None:
    found = pasting(kind, "https://door.example", TOKEN)
    assert found.steps
    if kind in FORMATS:
        assert found.address is not None
        assert found.address.startswith(f"https://door.example/hooks/{kind}")
    secrets = str(found.address).count(TOKEN) + str(found.header).count(TOKEN)
    assert secrets == (0 if kind in ("subsonic", "files") else 1), "the token is in one place"

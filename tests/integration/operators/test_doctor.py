"""``playhead doctor`` on a whole Playhead: all is well, and each thing that is not is named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.operators.house import House
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("operators"), pytest.mark.timeout(900), pytest.mark.long]


def said(house: House, expect: int) -> dict[str, list[dict[str, Any]]]:
    """What is not in order, by check."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in house.document("doctor", expect=expect)["findings"]:
        if one["status"] != "ok":
            found.setdefault(one["check"], []).append(one)
    return found


def test_given_a_playhead_that_works_then_nothing_fails_and_what_is_made_to_fail_is_named(playhead: House) -> None:
    house = playhead
    # Records of other tests may be on their way.
    eventually(lambda: house.rows("SELECT count(*) FROM model.outbox") == [(0,)], "the outbox is published", 60)
    assert not {check: one for check, one in said(house, 0).items() if check != "backup"}
    house.rows("INSERT INTO model.breakers (consumer, reason, through) VALUES ('projection.gone', 'a flood', '{}')")
    house.rows("INSERT INTO core.forgotten_people (user_ref, forgotten_at) VALUES ('nobody', now())")
    house.rows("DELETE FROM core.backups")
    try:
        found = said(house, 1)
        assert set(found) == {"breaker", "forgotten", "backup"}
        assert "playhead dlq resume projection.gone" in found["breaker"][0]["do"]
        assert "playhead forget --again" in found["forgotten"][0]["do"]
        assert "playhead backup FILE" in found["backup"][0]["do"]
    finally:
        house.rows("DELETE FROM model.breakers WHERE consumer = 'projection.gone'")
        house.rows("DELETE FROM core.forgotten_people WHERE user_ref = 'nobody'")

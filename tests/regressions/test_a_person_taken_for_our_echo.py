"""Somebody went on watching on a server in the moment between our write to it and our look at what it kept. That was
taken for what the server had made of our value, and ignored as an echo wherever it was heard of: it was lost."""

from __future__ import annotations

import pytest

from tests.ingest.pollers.servers.jellyfin import ANA
from tests.integration.forwarding.conftest import homes_database, household  # noqa: F401
from tests.integration.forwarding.household import Household
from tests.integration.forwarding.targets import COUNT_PLAYS
from tests.integration.forwarding.test_targets import Room
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("forwarding")]


def test_what_somebody_did_right_after_our_write_is_heard(household: Household) -> None:  # noqa: F811
    room = Room(household, COUNT_PLAYS["jellyfin"])
    room.say("pause", 600_000)
    wrote: list[int] = []

    def goes_on(here: str) -> None:
        if here == "forward.written" and not wrote:
            wrote.append(room.at)
            household.clock.advance(1_000)
            room.there.fake.start(ANA, room.target.item)
            room.there.fake.stop(ANA, 2_400_000)

    with household.worker(failpoint=goes_on):
        eventually(lambda: bool(wrote) and not household.due(), "it was told")
    household.pass_time(60)
    household.work()
    assert wrote == [600_000]
    assert household.wanted("there")["outcome"] == "kept"
    assert household.wanted("there")["refusals"] == 0
    household.poll(room.there)
    [heard] = [one for one in household.decided() if one.source_id == "there"]
    assert (heard.verdict, heard.position_ms, room.at) == ("accepted", 2_400_000, 2_400_000)

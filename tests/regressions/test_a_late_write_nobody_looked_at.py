"""What a worker wrote after another had taken its task over stood: it had asked whose task it is a moment before, and
that answer counted after the write as well; or the write failed on its way back, and nobody asked at all."""

from __future__ import annotations

import threading

import pytest

from streams.runtime import leases
from streams.upstream.errors import UpstreamAway
from tests.integration.forwarding.conftest import homes_database, household  # noqa: F401
from tests.integration.forwarding.household import Household
from tests.integration.forwarding.targets import COUNT_PLAYS
from tests.integration.forwarding.test_targets import Room
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("forwarding")]


@pytest.mark.parametrize("answered", [True, False])
def test_what_was_written_late_is_compared_again(
    household: Household,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    answered: bool,
) -> None:
    monkeypatch.setattr(leases, "CHECKED_S", 60.0)
    room = Room(household, COUNT_PLAYS["jellyfin"])
    room.say("pause", 600_000)
    late: list[int] = []
    wrote: list[int] = []

    def overtaken(here: str) -> None:
        me = threading.get_ident()
        if here == "forward.announced" and not late:
            late.append(me)
            room.say("pause", 900_000)
            household.query("UPDATE core.tasks SET lease_until = now() - interval '1 ms', next_attempt_at = now()")
            eventually(lambda: room.at == 900_000, "another has told it")
        elif here == "forward.written" and [me] == late and not wrote:
            wrote.append(room.at)
            if not answered:
                raise UpstreamAway("the answer was lost")

    with household.worker(failpoint=overtaken):
        eventually(lambda: bool(wrote) and room.at == 900_000, "the newest stands", 20)
    assert wrote == [600_000]

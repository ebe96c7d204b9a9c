"""The list of letters made anew after the first of them have expired: what is left of the log is what counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from projections.rebuild.running import Rebuild
from projections.rebuild.starts import Beginning
from tests.integration.dlq.conftest import input_topics, office
from tests.integration.dlq.office import Office, letters_of

__all__ = ["input_topics", "office"]
pytestmark = [pytest.mark.services, pytest.mark.xdist_group("rebuild"), pytest.mark.long]


def test_letters_that_the_topic_has_no_more_are_no_drift_and_others_are(office: Office) -> None:
    gone = [office.letter(number, consumer="agent.library") for number in range(3)]
    office.write([*gone, *(office.letter(number) for number in range(6))])
    office.list_all()
    office.world.cut_head(5)
    again = replace(office.letter(4), failed_at=2_000_000_000_000)
    office.write([again, *(office.letter(number) for number in range(6, 9))])
    office.list_all()
    assert len(office.letters()) == 12

    with rebuild_of(office) as rebuild:
        rebuild.open(Beginning())
        assert rebuild.catch_up()
        assert [one for one in rebuild.compare() if not one.equal] == []
        office.world.query("UPDATE model.dead_letters SET attempts = 99 WHERE topic_offset = 8")
        office.world.query("DELETE FROM model.dead_letters WHERE topic_offset = 7")
        found = {one.table: sorted(d.how for d in one.shown) for one in rebuild.compare() if not one.equal}
        assert found == {"dead_letters": ["differs", "extra"]}
        rebuild.switch()
    assert {letter.topic_offset for letter in office.letters()} == {2, 3, 4, 5, 6, 7, 8}


def rebuild_of(office: Office) -> Rebuild:
    return Rebuild(letters_of(office.world.topic), office.world.settings, office.world.contract)

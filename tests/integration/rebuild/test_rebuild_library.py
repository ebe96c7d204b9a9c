"""The library's model made anew: its copies of what the door looks up are thrown away, and renewed at the switch."""

from __future__ import annotations

import pytest

from projections.rebuild.running import Rebuild
from projections.rebuild.starts import Beginning, FromOffset
from streams.runtime.errors import ConfigurationError
from tests.integration.projections.test_library_runner import of_topic, project, put
from tests.integration.projections.world import World
from tests.projections.changes import Libraries

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("rebuild"), pytest.mark.long]

ALIASES = "SELECT source_id, upstream_media, media_id FROM core.media_aliases ORDER BY 1, 2"


def test_a_lost_item_and_a_lost_alias_are_told_and_come_back(changed: World) -> None:
    events = Libraries(12).changes(400)
    put(changed, events)
    project(changed, 400)
    before, aliases = changed.digests(), changed.query(ALIASES)
    assert len(aliases) > 1
    own = ("home", "known to the door alone", "f" * 32)
    changed.query("INSERT INTO core.media_aliases VALUES (%s, %s, %s)", *own)
    changed.query("UPDATE core.media_aliases SET media_id = 'wrong' WHERE upstream_media = %s", aliases[0][1])
    changed.query("DELETE FROM model.media_items WHERE ctid = '(0,1)'")
    changed.query("DELETE FROM model.upstream_aliases WHERE ctid = '(0,1)'")

    with Rebuild(of_topic(changed.topic), changed.settings, changed.contract) as rebuild:
        rebuild.open(Beginning())
        assert rebuild.catch_up()
        found = {one.table: [d.how for d in one.shown] for one in rebuild.compare() if not one.equal}
        assert found == {"media_items": ["extra"], "upstream_aliases": ["extra"]}
        # Nothing of schema core is written before the switch.
        assert ("wrong",) in changed.query("SELECT media_id FROM core.media_aliases")
        rebuild.switch()

    assert changed.digests() == before
    assert sorted(changed.query(ALIASES)) == sorted([*aliases, own])
    assert changed.query("SELECT count(*) FROM model.outbox WHERE cache_key = 'model'") == [(1,)]


def test_a_model_that_counts_differences_is_rebuilt_from_its_beginning_only(changed: World) -> None:
    put(changed, Libraries(13).changes(50))
    project(changed, 50)
    with Rebuild(of_topic(changed.topic), changed.settings, changed.contract) as rebuild:
        with pytest.raises(ConfigurationError, match="from the first record"):
            rebuild.open(FromOffset(3))
        assert not rebuild.open(Beginning())

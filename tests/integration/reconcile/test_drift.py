"""Drift made on purpose, in more than ten ways: each is told by its cause, mended through the log, and then gone."""

from __future__ import annotations

import pytest

from projections.reconcile.findings import Cause
from tests.ingest.pollers.servers.jellyfin import BEN
from tests.integration.projections.world import eventually
from tests.integration.reconcile.lab import MINUTE_MS, Lab, causes, film, same

pytestmark = [pytest.mark.services, pytest.mark.xdist_group("reconcile"), pytest.mark.long]


def test_drift_made_in_thirteen_ways_is_named_mended_through_the_log_and_then_gone(lab: Lab) -> None:
    assert causes(lab.reconcile()) == {}, lab.reconcile().as_json()

    lab.read(6)
    lab.read(7)
    eventually(lambda: lab.is_cached(6) and lab.is_cached(7), "both are cached")
    # The log's own side: rows, names, tasks.
    assert lab.write(
        "UPDATE model.playback_progress SET listened_ms = listened_ms + 1 WHERE media_id = %s", lab.media(2)
    )
    assert lab.write("DELETE FROM model.progress_history WHERE media_id = %s", lab.media(3))
    assert lab.write("INSERT INTO model.user_versions VALUES ('nobody', 0, 1, 1)")
    assert lab.write("DELETE FROM core.media_aliases WHERE source_id = 'den' AND upstream_media = %s", film(100))
    # The cache.
    lab.forge(6, 1)
    with lab.deaf():
        lab.play(7, 50 * MINUTE_MS)
    # The servers.
    lab.attic.data[BEN, same(4)] |= {"PlaybackPositionTicks": 0, "LastPlayedDate": None}
    lab.attic.clock.advance(3_600_000)
    lab.attic.start(BEN, same(5))
    lab.attic.progress(BEN, 40 * MINUTE_MS)
    lab.attic.stop(BEN, 40 * MINUTE_MS)
    del lab.den.items[film(8)]
    lab.den.providers[film(9)] = {"Imdb": "tt0000009", "Tmdb": "99"}
    lab.add(lab.den, film(200), 200)
    lab.play(200, 10 * MINUTE_MS, upstream=film(200))
    lab.settle()
    assert lab.write(
        "INSERT INTO core.tasks (kind, key, source_id, log_epoch, wanted_version, correlation_id, requested_at,"
        " next_attempt_at) VALUES ('scan', 'barn', 'barn', 1, 0, 'c', now(), now() + interval '1 day')"
    )

    found = lab.reconcile(repair=True)
    assert causes(found) == {
        Cause.ROW_EDITED: 1,
        Cause.ROW_DELETED: 1,
        Cause.ROW_EXTRA: 1,
        Cause.ALIAS_LOST: 1,
        Cause.ORPHAN_TASK: 1,
        Cause.ORPHAN_PROGRESS: 1,
        Cause.MISSING_HERE: 1,
        Cause.GONE_UPSTREAM: 1,
        Cause.FACTS_DIFFER: 1,
        Cause.UPSTREAM_CHANGED: 1,
        Cause.FORWARD_LOST: 1,
        Cause.CACHE_STALE: 1,
        Cause.INVALIDATION_LOST: 1,
    }, found.as_json()
    assert found.in_order

    lab.settle()
    assert causes(lab.reconcile()) == {}, lab.reconcile().as_json()
    assert lab.at(4) == 4 * 5 * MINUTE_MS
    assert lab.read(7)["position_ms"] == 50 * MINUTE_MS
    assert lab.read(6)["position_ms"] == 30 * MINUTE_MS

"""What waits for an operator is in the metrics of the relay, and no more once it was done."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from projections import attention
from projections.attention import Attention
from projections.backup import copying
from projections.dlq.desk import Status
from projections.flood import open_breaker, resume
from projections.relay import Relay
from streams.runtime import metrics
from tests.integration.dlq.office import Office
from tests.integration.dlq.test_listing import Log, mark
from tests.integration.projections.world import eventually

pytestmark = [pytest.mark.services, pytest.mark.long]


def shown(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(f"playhead_{name}", labels)


def look(office: Office, counting: Attention) -> None:
    """Count, with what the relay's login may see."""
    with office.world.connect("relay") as connection:
        counting.look(connection)


def test_letters_are_counted_until_somebody_has_dealt_with_them(office: Office) -> None:
    counting, log = Attention(), Log(office)
    log.append(*(office.letter(number) for number in range(3)), office.letter(9, cause="unknown_schema"))
    log.fold(log.records, 10)
    kept = {letter.topic_offset: letter.letter_id for letter in office.letters()}

    def counted() -> tuple[float | None, float | None]:
        look(office, counting)
        return shown("dead_letters_open", cause="rejected"), shown("dead_letters_open", cause="unknown_schema")

    assert counted() == (3, 1)
    with office.desk() as desk:
        mark(desk, [kept[0]], Status.PARKED, Status.OPEN)
        mark(desk, [kept[9]], Status.DISCARDED, Status.OPEN)
    assert counted() == (2, 0)
    with office.desk() as desk:
        mark(desk, [kept[0]], Status.OPEN, Status.PARKED)
    assert counted() == (3, 0)


def test_a_projection_that_a_flood_has_stopped_is_named_until_it_is_resumed(office: Office) -> None:
    counting = Attention()
    with office.world.connect("projector") as connection:
        open_breaker(connection, "projection.playback", "too many", {0: 7})
    look(office, counting)
    assert shown("breakers_open", consumer="projection.playback") == 1
    assert resume(office.world.settings.postgres.conninfo("projector"), "projection.playback")
    look(office, counting)
    assert shown("breakers_open", consumer="projection.playback") == 0


def test_a_running_relay_says_how_old_the_newest_backup_is(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "EVERY_S", 0.1)
    relay, stop = Relay(office.world.settings, office.world.contract), threading.Event()
    metrics.BACKUP_AGE_SECONDS.set(-1)
    thread = threading.Thread(target=relay.run, args=(stop,), daemon=True)
    thread.start()
    try:
        eventually(lambda: shown("backup_age_seconds") == math.inf, "none was ever made")
        with office.world.connect("owner") as connection:
            copying.write(connection, tmp_path / "backup.zip", "check")
        eventually(lambda: 0 <= (shown("backup_age_seconds") or -1.0) < 3_600, "there is one")
    finally:
        stop.set()
        thread.join(30)

"""The demo's dead letter: a report that somebody's tool put into the wrong partition, listed, redriven and decided."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from streams.cli.choosing import place_of
from streams.cli.demo_waiting import clock, until
from streams.domain.identity import media_id

SOURCE: Final = "home"
PERSON: Final = "ana"
MEDIA: Final = "salt-roads"
_POSITION_MS: Final = 20 * 60_000
_CAUSE: Final = "wrong_partition"


def play(read: Callable[[str, str], Any], settings: Any, console: Any) -> None:
    """Run it. ``read(source, path)``: GET with that source's token, None for 404. Raises RuntimeError when something
    does not become what it must."""
    from projections.dlq.desk import Chosen, Desk, Letter

    event_id = uuid.uuid4().hex
    place = _misplace(event_id, settings)
    console.print(
        "\nAna's own script writes to Kafka itself, and puts a report into the wrong partition: order would be lost "
        f"there, so nobody decides it. [bold]playhead dlq list --cause {_CAUSE}[/bold]"
    )
    with Desk(settings.postgres.conninfo("projector"), "demo") as desk:

        def listed() -> Letter | None:
            found = desk.letters(Chosen(cause=_CAUSE, statuses=()))
            return next((one for one in found if _place(one) == place), None)

        letter = until("the report is a dead letter, and listed", listed)
        if letter.status != "open" or read(SOURCE, f"/v1/events/{event_id}") is not None:
            raise RuntimeError(f"a report in the wrong partition was decided, or its letter is not open: {letter}")
        console.print(_table(letter))
        console.print(f"[bold]playhead dlq redrive {letter.letter_id[:12]}[/bold]")
        outcome = _redrive(settings, desk, letter.letter_id)
        if outcome.done.keys() != {letter.letter_id} or outcome.refused or outcome.failed:
            raise RuntimeError(f"the letter was not redriven: {outcome}")
        decided = until("the redriven report is decided", lambda: read(SOURCE, f"/v1/events/{event_id}"))
        status = until("the letter says so", listed).status
    shown = read(SOURCE, f"/v1/users/{PERSON}/progress/{MEDIA}")
    if decided["verdict"] != "accepted" or status != "redriven" or (shown or {}).get("position_ms") != _POSITION_MS:
        raise RuntimeError(f"the redriven report did not count: {decided} {status} {shown}")
    console.print(
        f"{letter.letter_id[:12]} {status}: {outcome.done[letter.letter_id]}, where its topic places it; decided: "
        f"{decided['verdict']}. Ana is at {clock(shown['position_ms'])} of Salt Roads."
    )


def _place(letter: Any) -> tuple[str, int, int]:
    return letter.topic, letter.topic_partition, letter.topic_offset


def _misplace(event_id: str, settings: Any) -> tuple[str, int, int]:
    """Append a good report to the partition after its own; topic, partition and offset of it."""
    from schemas.events import PlaybackReported
    from schemas.placement import playback_key, playback_partition
    from schemas.topics import PLAYBACK_REPORTED
    from streams.cli.admin import door_connection
    from streams.runtime.contract import Contract
    from streams.runtime.outlet import Outlet
    from streams.runtime.people import find_account
    from streams.runtime.publisher import Record

    with door_connection(settings) as connection:
        person = find_account(connection, SOURCE, PERSON).user_ref
    now = int(time.time() * 1000)
    report = PlaybackReported(
        event_id=event_id,
        correlation_id=event_id,
        source_id=SOURCE,
        occurred_at=now,
        received_at=now,
        user_ref=person,
        media_id=media_id(SOURCE, MEDIA),
        upstream_media=MEDIA,
        media_kind="video",
        session_id="script",
        device_id="script",
        kind="seek",
        position_ms=_POSITION_MS,
        duration_ms=95 * 60_000,
    )
    key = playback_key(report.user_ref, report.media_id)
    wrong = (playback_partition(key) + 1) % PLAYBACK_REPORTED.partitions
    contract, outlet = Contract.of(settings), Outlet(settings.kafka)
    try:
        [place] = outlet.publish([Record(PLAYBACK_REPORTED.name, wrong, key, contract.encode(report))])
    finally:
        outlet.close()
        contract.close()
    return place.topic, place.partition, place.offset


def _redrive(settings: Any, desk: Any, letter_id: str) -> Any:
    """As ``playhead dlq redrive LETTER`` does."""
    from projections.dlq.desk import Chosen
    from projections.dlq.redrive import Redriver
    from projections.entry import PROJECTIONS
    from streams.runtime.clock import SystemClock
    from streams.runtime.contract import Contract

    projections = {name: made() for name, made in PROJECTIONS.items()}
    redriver = Redriver(desk, settings.kafka, Contract.of(settings), SystemClock(), projections)
    return redriver.redrive(Chosen(letters=(letter_id,)), "the script was mended")


def _table(letter: Any) -> Any:
    from rich.table import Table

    table = Table(title="Dead letters", title_justify="left")
    for column in ("letter", "consumer", "place", "cause", "status"):
        table.add_column(column, overflow="fold")
    table.add_row(letter.letter_id[:12], letter.consumer, place_of(letter), letter.cause_class, letter.status)
    return table

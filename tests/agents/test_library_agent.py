"""One record through the library agent's step, without Kafka: what it sends, keeps, and calls poison."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from schemas.events import CacheInvalidated
from schemas.ids import SchemaIds
from schemas.library import (
    FinalizeContinued,
    ItemChanged,
    ItemObserved,
    ItemRemovalObserved,
    ItemStatusRequested,
    MediaMerged,
    Observation,
    ScanCancelled,
    ScanChanged,
    ScanFailed,
    ScanRequested,
)
from schemas.limits import ID_BYTES_MAX
from schemas.placement import PARTITIONS
from schemas.topics import LIBRARY_CHANGED, LIBRARY_COMMANDS, LIBRARY_OBSERVED, MEDIA_MERGED
from streams.agents import library
from streams.agents import library_state as rows
from streams.agents.library_needs import behind, places
from streams.agents.library_shelf import TableShelf
from streams.domain.identity import media_id
from streams.domain.library import keys
from streams.domain.library.limits import ROWS_READ_MAX
from streams.domain.library.rows import Tally
from streams.engine import App, EngineConfig, Refused
from streams.runtime import metrics
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from streams.runtime.settings import Settings
from tests.agents.library_desk import (
    CONTRACT,
    HOME,
    LOGGED_AT,
    SOURCE,
    Batch,
    Desk,
    Sent,
    Table,
    details,
    head,
    listed,
    message,
    path,
    scan,
    seen,
    started,
)

FILES = range(20)


def hook(upstream_id: str, name: str = "hook") -> ItemObserved:
    return ItemObserved(**head(name), how="hook", upstream_id=upstream_id, details=details(1))


def changes(sent: list[Sent]) -> list[ItemChanged]:
    return [one.event for one in sent if isinstance(one.event, ItemChanged)]


def statuses(sent: list[Sent]) -> list[str]:
    return [one.event.status for one in sent if isinstance(one.event, ScanChanged)]


def told(event: str, change: str) -> float:
    return metrics.REGISTRY.get_sample_value(
        "playhead_library_changes_total", {"event": event, "change": change}
    ) or 0.0  # fmt: skip


def test_given_a_new_file_its_change_goes_to_its_own_partition_and_names_its_cause() -> None:
    desk = Desk()
    desk.feed(started(1))
    (sent,) = desk.feed(seen(1, 0, 4, new=True))
    assert (sent.topic, sent.key, sent.partition) == (LIBRARY_CHANGED.name, SOURCE.encode(), HOME)
    event = sent.event
    assert (event.cause.topic_id, event.cause.partition, event.cause.offset, event.cause.index) == (
        f"id of {LIBRARY_OBSERVED.name}",
        HOME,
        1,
        0,
    )
    assert (event.event_id, event.correlation_id, event.source_id) == ("1/0/0", "c of 1/0", SOURCE)
    assert (event.occurred_at, event.received_at, event.logged_at) == (LOGGED_AT - 200, LOGGED_AT - 100, LOGGED_AT + 1)
    assert (event.media_id, event.status, event.changes, event.first_seen_at) == (
        media_id(SOURCE, path(4).decode()),
        "present",
        ("added",),
        LOGGED_AT + 1,
    )
    assert (event.locators[0].path, event.details) == (path(4), details(4))


def test_given_a_second_scan_of_the_same_files_nothing_is_told_of_them() -> None:
    desk = Desk()
    first = desk.feed(*scan(1, FILES, new=True))
    assert Counter(event.changes for event in changes(first)) == {("added",): len(FILES)}
    assert statuses(first) == ["running", "finalizing", "finalized"]
    second = desk.feed(*scan(2, FILES, new=False))
    assert changes(second) == []
    assert statuses(second) == ["running", "finalizing", "finalized"]


def test_given_a_file_that_a_scan_does_not_see_it_is_missing() -> None:
    desk = Desk()
    desk.feed(*scan(1, FILES, new=True))
    (gone,) = changes(desk.feed(*scan(2, FILES[1:], new=False)))
    assert (gone.media_id, gone.status) == (media_id(SOURCE, path(0).decode()), "missing")


def test_given_a_long_end_the_agent_tells_itself_where_to_go_on_and_a_repeated_word_does_nothing() -> None:
    desk = Desk()
    many = range(2 * ROWS_READ_MAX + 500)
    sent = desk.feed(*scan(1, many, new=True))
    assert statuses(sent) == ["running", "finalizing", "finalized"]
    words = [one for one in sent if one.topic == LIBRARY_OBSERVED.name]
    assert len(words) > 1
    assert all((one.key, one.partition) == (SOURCE.encode(), HOME) for one in words)
    assert len({one.event.event_id for one in words}) == len(words)
    before = dict(desk.table.rows)
    for one in words:
        assert desk.feed(one.event) == []
    assert desk.table.rows == before


def test_given_a_merge_it_is_told_to_the_library_and_to_every_partition_of_the_merges() -> None:
    """A server's item is known by one id; another scan finds it under a new id, its file unchanged."""
    desk = Desk()

    def server_item(generation: int, upstream_id: str) -> list[Observation]:
        one = replace(seen(generation, 0, 4, new=True), upstream_id=upstream_id)
        return [started(generation), one, listed(generation, 1)]

    desk.feed(*server_item(1, "old"))
    sent = desk.feed(*server_item(2, "new"))
    merged = [one for one in sent if isinstance(one.event, MediaMerged)]
    ended, survivor = media_id(SOURCE, "new"), media_id(SOURCE, "old")
    assert {(one.event.media_id, one.event.survivor) for one in merged} == {(ended, survivor)}
    (of_library,) = [one for one in merged if one.topic == LIBRARY_CHANGED.name]
    assert (of_library.key, of_library.partition) == (SOURCE.encode(), HOME)
    copies = [one for one in merged if one.topic == MEDIA_MERGED.name]
    assert [one.partition for one in copies] == list(range(PARTITIONS))
    assert {one.key for one in copies} == {ended.encode()}
    assert len({one.event.event_id for one in merged}) == 1 + PARTITIONS
    indexes = [one.event.cause.index for one in sent if hasattr(one.event, "cause") and "2/0" in one.event.event_id]
    assert indexes == list(range(len(indexes)))


def test_given_the_same_records_again_from_the_same_rows_the_same_bytes_are_sent() -> None:
    records = [*scan(1, FILES, new=True), *scan(2, FILES[2:], new=False)]
    assert Desk().feed(*records) == Desk().feed(*records)


def test_given_an_event_id_at_the_limit_its_outputs_have_one_that_fits() -> None:
    desk = Desk()
    long = hook("u", name="é" * (ID_BYTES_MAX // 2))
    (one,) = desk.feed(replace(long, correlation_id="c"))
    assert len(one.event.event_id.encode()) <= ID_BYTES_MAX
    other = Desk().feed(replace(long, event_id=long.event_id[:-1] + "è", correlation_id="c"))
    assert other[0].event.event_id != one.event.event_id


def test_given_commands_far_on_in_their_topic_sightings_are_compared_with_sightings_only() -> None:
    """Offsets of the two topics have nothing to do with each other."""
    desk = Desk()
    desk.offsets[LIBRARY_COMMANDS.name] = 1_000_000
    desk.feed(*scan(1, FILES, new=True))
    name = media_id(SOURCE, path(3).decode())
    (deleted,) = changes(desk.feed(ItemStatusRequested(**head("status"), media_id=name, status="deleted")))
    assert deleted.status == "deleted"
    desk.feed(ScanRequested(**head("ask"), requested_by="operator"), ScanCancelled(**head("cancel"), generation=999))
    (back, gone) = changes(desk.feed(*scan(2, FILES[1:], new=False)))
    assert (back.media_id, back.status) == (name, "present")
    assert (gone.media_id, gone.status) == (media_id(SOURCE, path(0).decode()), "missing")


def test_given_a_request_that_repeats_a_scan_the_old_one_is_told_to_be_superseded() -> None:
    desk = Desk()
    desk.feed(started(1), seen(1, 0, 4, new=True))
    desk.offsets[LIBRARY_COMMANDS.name] = 5
    sent = desk.feed(ScanRequested(**head("retry"), requested_by="retry", replaces=1))
    assert statuses(sent) == ["superseded"]
    assert sent[0].event.cause.topic_id == f"id of {LIBRARY_COMMANDS.name}"
    assert desk.feed(seen(1, 1, 5, new=True)) == []


@pytest.mark.parametrize(
    ("key", "value", "partition", "cause"),
    [
        (None, CONTRACT.encode(started(1)), HOME, "null_key"),
        (SOURCE.encode(), None, HOME, "null_value"),
        (SOURCE.encode(), b"garbage", HOME, "bad_magic"),
        (b"other", CONTRACT.encode(started(1)), HOME, "key_mismatch"),
        (SOURCE.encode(), CONTRACT.encode(started(1)), (HOME + 1) % PARTITIONS, "wrong_partition"),
    ],
)
def test_given_poison_nothing_is_sent_or_kept_and_its_cause_is_named(
    key: bytes | None, value: bytes | None, partition: int, cause: str
) -> None:
    desk = Desk()
    with pytest.raises(Permanent) as caught:
        desk.give(message(LIBRARY_OBSERVED, key, value, partition=partition))
    assert caught.value.cause == cause
    assert not desk.table.rows


def test_given_an_event_of_the_other_topic_or_of_none_of_both_it_is_poison() -> None:
    stray = CacheInvalidated(
        event_id="e",
        correlation_id="c",
        source_id=SOURCE,
        received_at=1,
        cache_key="k",
        model_epoch=1,
        log_epoch=1,
        partition=0,
        version=1,
    )
    command = ScanRequested(**head("ask"), requested_by="operator")
    for topic, value in (
        (LIBRARY_OBSERVED, CONTRACT.encode(stray)),
        (LIBRARY_OBSERVED, CONTRACT.encode(command)),
        (LIBRARY_COMMANDS, CONTRACT.encode(started(1))),
    ):
        with pytest.raises(Permanent) as caught:
            Desk().give(message(topic, SOURCE.encode(), value))
        assert caught.value.cause == "wrong_event"


@pytest.mark.parametrize(
    "event",
    [
        hook(""),
        replace(seen(1, 0, 4, new=True), how="guess"),
        ItemRemovalObserved(**head("gone"), upstream_id="", how="hook"),
        ScanFailed(**head("failed"), generation=(1 << 63) - 1, reason="io"),
    ],
    ids=["empty id", "unknown way", "nothing removed", "no number after it"],
)
def test_given_a_value_that_cannot_be_its_dead_letter_keeps_its_correlation(event: Observation) -> None:
    desk = Desk()
    with pytest.raises(Permanent) as caught:
        desk.feed(event)
    assert caught.value.cause == "invalid_value"
    assert (caught.value.correlation_id, caught.value.source_id) == (event.correlation_id, SOURCE)


class _Registry(Contract):
    """A contract whose registry has this to say about every id."""

    def __init__(self, says: Exception) -> None:
        super().__init__(SchemaIds(), registry=None)
        self._says = says

    def decode(self, data: bytes) -> Any:
        raise self._says


def test_given_only_an_absent_registry_could_tell_the_record_is_to_be_tried_again() -> None:
    desk = Desk()
    unknown = message(LIBRARY_OBSERVED, SOURCE.encode(), b"\0\0\0\0\1")
    batch = Batch()
    away = _Registry(Unavailable("away"))
    assert not library.process(cast(Any, batch), unknown, desk.shelf, away, Observation)
    assert not batch.sent
    assert not desk.table.rows


def test_given_a_record_or_row_of_a_newer_build_the_worker_refuses_and_says_upgrade() -> None:
    with pytest.raises(Refused, match="upgrade"):
        Desk(_Registry(ConfigurationError("upgrade Playhead"))).give(
            message(LIBRARY_OBSERVED, SOURCE.encode(), b"\0\0\0\0\1")
        )
    desk = Desk()
    desk.feed(started(1))
    key = keys.prefix(SOURCE) + keys.SOURCE
    desk.table.rows[key] = bytes((rows.VERSION + 1,)) + desk.table.rows[key][1:]
    with pytest.raises(Refused, match="Upgrade"):
        desk.feed(seen(1, 0, 4, new=True))


def test_given_an_unexpected_error_it_carries_the_correlation_id_of_its_record() -> None:
    desk = Desk()
    desk.feed(started(1))
    desk.table.rows[keys.prefix(SOURCE) + keys.TALLY] = b"\1\x09"
    with pytest.raises(rows.DamagedRow) as caught:
        desk.feed(seen(1, 0, 4, new=True))
    assert caught.value.__notes__ == ["correlation id c of 1/0"]


def test_given_a_record_that_is_undone_the_shelf_shows_the_rows_of_before() -> None:
    """The engine puts the very objects back."""
    desk = Desk()
    desk.feed(started(1), seen(1, 0, 4, new=True))
    before = dict(desk.table.rows)
    desk.feed(seen(1, 1, 5, new=True))
    desk.table.rows = dict(before)
    tally = desk.shelf.get(keys.prefix(SOURCE) + keys.TALLY)
    assert isinstance(tally, Tally)
    assert (tally.next, tally.added) == (1, 1)


class Watched(Table):
    """A table that knows which rows were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[bytes] = set()

    def get(self, key: bytes) -> bytes | None:
        self.asked.add(key)
        return super().get(key)


def test_given_a_batch_the_rows_it_will_ask_for_are_named_before() -> None:
    """All of them but those that every record of a source shares."""
    desk = Desk()
    desk.feed(*scan(1, FILES, new=True), hook("known"))
    desk.feed(started(2))
    desk.table = watched = Watched()
    prefix = keys.prefix(SOURCE)
    shared = {prefix + keys.SOURCE, prefix + keys.TALLY}
    nothing = replace(hook("u"), upstream_id=None)
    no_event = Permanent("none", cause="null_key")
    for rows_before in ({}, dict(desk.shelf._table.rows)):  # type: ignore[attr-defined]
        watched.rows = rows_before
        desk.shelf = TableShelf(watched)
        for event in (
            seen(2, 0, 3, new=False),
            seen(2, 1, 4, new=True),
            seen(2, 2, 99, new=True),
            hook("known"),
            hook("u"),
        ):
            named = {*places([event, nothing, no_event]), *behind([event, nothing, no_event], desk.shelf)}
            watched.asked.clear()
            desk.feed(event)
            tops = {key for key in watched.asked if key.startswith(prefix + keys.TOP)}
            assert watched.asked - shared - tops <= named, event


def test_given_decisions_they_are_counted_by_what_changed() -> None:
    names = (("ItemChanged", "added"), ("ScanChanged", "finalized"), ("FinalizeContinued", "clean"))
    before = {name: told(*name) for name in names}
    sent = Desk().feed(*scan(1, FILES, new=True))
    words = [one.event.step for one in sent if isinstance(one.event, FinalizeContinued)]
    after = {name: told(*name) - count for name, count in before.items()}
    assert after == {names[0]: len(FILES), names[1]: 1, names[2]: words.count("clean")}


def test_a_row_is_at_home_where_its_source_is() -> None:
    assert library.home(keys.prefix(SOURCE) + keys.item("m")) == HOME
    for key in (b"", b"home", b":x", b"home:"):
        with pytest.raises(ValueError, match="source_id:row"):
            library.home(key)


def test_what_is_written_in_other_partitions_is_declared_so_that_nothing_undecided_is_written_to(
    tmp_path: Path,
) -> None:
    app = App(EngineConfig(bootstrap="nowhere:9", group="library", state_dir=tmp_path))
    library.AGENT.declare(app, Settings(), CONTRACT)
    assert set(app.group.needed.outputs) == set(library.AGENT.outputs)
    desk = Desk()
    desk.feed(started(1), replace(seen(1, 0, 4, new=True), upstream_id="old"), listed(1, 1))
    sent = desk.feed(started(2), replace(seen(2, 0, 4, new=True), upstream_id="new"), listed(2, 1))
    spread = {one.topic for one in sent if one.partition != HOME}
    assert spread == {MEDIA_MERGED.name}
    assert spread == set(app.group.needed.everywhere)

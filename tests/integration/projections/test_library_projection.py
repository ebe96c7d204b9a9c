"""The library projection on a real PostgreSQL: rows equal the fold, whatever the batches; replays change nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from projections import outbox
from projections.base import Folded, Record
from projections.digest import Digest, digests
from projections.models.library import LibraryProjection
from projections.models.library_rows import STATUSES, collection_id, folder_of
from schemas.library import Change, CollectionRef, ItemDetails, Locator
from streams.runtime.errors import Permanent
from streams.runtime.settings import Settings
from tests.integration.projections.world import expect_rows
from tests.projections.changes import (
    ALBUM,
    PRIMARY_KEYS,
    Libraries,
    Model,
    Rows,
    aliased,
    details,
    held,
    item,
    merged,
    placed,
    scan,
)

pytestmark = pytest.mark.services

A, B, C, D = (letter * 32 for letter in "abcd")


class Shelf:
    """A projector's hand in a database, without Kafka before it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._projection = LibraryProjection()
        self._connection = psycopg.connect(**settings.postgres.conninfo("projector"), autocommit=True)
        self._projection.prepare(self._connection)

    def fold(self, batch: Sequence[Record[Change]]) -> Folded:
        with self._connection.transaction():
            folded = self._projection.fold(batch, self._connection)
            outbox.write(self._connection, folded.invalidations)
        return folded

    def fold_late(self, record: Record[Change]) -> None:
        with self._connection.transaction():
            self._projection.fold_late(record, self._connection)

    def fold_all(self, log: Sequence[Record[Change]], sizes: random.Random) -> None:
        start = 0
        while start < len(log):
            end = start + sizes.choice((1, 7, 60, 500))
            self.fold(log[start:end])
            start = end

    def query(self, query: str, *parameters: Any, role: Any = "owner") -> list[tuple[Any, ...]]:
        with psycopg.connect(**self.settings.postgres.conninfo(role)) as connection:
            cursor = connection.execute(query.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def digests(self) -> dict[str, Digest]:
        with psycopg.connect(**self.settings.postgres.conninfo("owner")) as connection:
            return digests(connection)

    def rows(self) -> Rows:
        found: Rows = {}
        with psycopg.connect(**self.settings.postgres.conninfo("owner")) as connection:
            for table, key in PRIMARY_KEYS.items():
                cursor = connection.cursor(row_factory=dict_row)
                cursor.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier("model", table)))
                found[table] = {tuple(row[name] for name in key): row for row in cursor.fetchall()}
        return found

    def clear(self) -> None:
        for table in PRIMARY_KEYS:
            self.query(f"TRUNCATE model.{table}")

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def shelf(model_settings: Settings) -> Iterator[Shelf]:
    made = Shelf(model_settings)
    yield made
    made.close()


def test_rows_equal_the_fold_of_the_log_wherever_batches_end(shelf: Shelf) -> None:
    log = placed(Libraries(1).changes(1_500))
    expected = Model().read(log).rows()
    found = []
    for seed in range(3):
        shelf.clear()
        shelf.fold_all(log, random.Random(seed))
        expect_rows(shelf.rows(), expected)
        found.append(shelf.digests())
    assert found[0] == found[1] == found[2]


def test_replaying_the_whole_log_changes_nothing_and_invalidates_nothing(shelf: Shelf) -> None:
    log = placed(Libraries(2).changes(800))
    shelf.fold_all(log, random.Random(1))
    before, outbox_rows = shelf.digests(), shelf.query("SELECT count(*) FROM model.outbox")
    aliases = shelf.query("SELECT * FROM core.media_aliases ORDER BY 1, 2")

    shelf.fold_all(log, random.Random(2))
    late = shelf.fold(random.Random(3).sample(log, 300))

    assert late.stale == 300
    assert (shelf.digests(), shelf.query("SELECT count(*) FROM model.outbox")) == (before, outbox_rows)
    assert shelf.query("SELECT * FROM core.media_aliases ORDER BY 1, 2") == aliases


def test_another_log_that_was_adopted_wins_over_the_rows_there_are(shelf: Shelf) -> None:
    shelf.fold(placed([item(A, 0), item(A, 1, status="missing"), scan(3, 2), held(True, 3)]))
    shelf.fold(placed([item(A, 9), scan(3, 10, status="failed"), held(False, 11)], log_epoch=2))
    assert shelf.query("SELECT status, log_epoch, version FROM model.media_items") == [("present", 2, 0)]
    assert shelf.query("SELECT status FROM model.scan_sessions") == [("failed",)]
    assert shelf.query("SELECT held, present, missing FROM model.source_state") == [(False, 1, 0)]


def test_counts_of_collections_and_sources_equal_a_recomputation(shelf: Shelf) -> None:
    shelf.fold_all(placed(Libraries(4, media=60).changes(1_200)), random.Random(5))
    columns = ", ".join(STATUSES)
    counted = ", ".join(f"count(*) FILTER (WHERE status = '{status}')" for status in STATUSES)
    assert shelf.query(f"SELECT collection_id, {columns} FROM model.collections ORDER BY 1") == shelf.query(
        f"SELECT collection_id, {counted} FROM model.collection_items JOIN model.media_items USING (media_id)"
        " WHERE NOT merged GROUP BY 1 ORDER BY 1"
    )
    assert shelf.query(f"SELECT source_id, {columns} FROM model.source_state ORDER BY 1") == shelf.query(
        f"SELECT source_id, {counted} FROM model.media_items WHERE NOT merged GROUP BY 1 ORDER BY 1"
    )


@pytest.mark.parametrize("order", [((A, B), (B, C), (C, D)), ((C, D), (B, C), (A, B)), ((B, C), (A, B), (C, D))])
@pytest.mark.parametrize("together", [True, False])
def test_merges_lead_to_the_last_in_whatever_order_the_chain_was_made(
    shelf: Shelf, order: tuple[tuple[str, str], ...], together: bool
) -> None:
    log = placed([merged(ends, stays, number) for number, (ends, stays) in enumerate(order)])
    for batch in [log] if together else [[one] for one in log]:
        shelf.fold(batch)
    assert shelf.query("SELECT media_id, survivor FROM model.media_merges ORDER BY 1") == [(A, D), (B, D), (C, D)]


def test_a_merge_in_a_circle_changes_nothing(shelf: Shelf) -> None:
    shelf.fold(placed([merged(A, B, 0), merged(B, A, 1)]))
    assert shelf.query("SELECT media_id, survivor FROM model.media_merges") == [(A, B)]


def test_a_media_that_ended_is_listed_nowhere_and_found_as_what_it_ended_in(shelf: Shelf) -> None:
    shelf.fold(placed([item(A, 0), item(B, 1, details=details(title="Fugue")), merged(A, B, 2)]))
    assert shelf.query("SELECT media_id FROM api.items") == [(B,)]
    found = shelf.query("SELECT asked, media_id, version, merged_from FROM api.media ORDER BY 1")
    assert found == [(A, B, 2, [A]), (B, B, 2, [A])]
    assert shelf.query("SELECT present FROM api.collections WHERE collection_id = %s", ALBUM) == [(1,)]
    facts = shelf.query("SELECT media_id, media_kind, duration_ms FROM api.media_facts ORDER BY 1", role="door")
    assert facts == [(A, "music", 540_000), (B, "music", 540_000)]
    assert shelf.query("SELECT count(*) FROM model.media_locators") == [(1,)]


def test_a_changed_item_invalidates_itself_and_the_collections_it_left_and_joined_alone(shelf: Shelf) -> None:
    moved = (Locator(b"Other/T.flac", 41, None, None, None),)
    shelf.fold(placed([item(A, 0), item(B, 1, details=None, locators=())]))
    folded = shelf.fold(placed([item(A, 0), item(B, 1), item(A, 2, locators=moved, changes=("moved",))])[2:])
    artist, former, now = (
        collection_id("home", kind, key) for kind, key in (("artist", "bach"), ("folder", "Bach"), ("folder", "Other"))
    )
    keys = {f"item:{A}", *(f"collection:{one}" for one in (ALBUM, artist, former, now))}
    assert {one.cache_key for one in folded.invalidations} == keys
    assert {(one.version, one.reason) for one in folded.invalidations} == {(2, "moved")}
    assert shelf.query("SELECT count(*) FROM model.collections WHERE collection_id = %s", former) == [(0,)]


def test_a_scan_that_changes_nothing_invalidates_nothing(shelf: Shelf) -> None:
    shelf.fold(placed([item(A, 0)]))
    log = placed([item(A, 0), scan(9, 1), scan(9, 2, status="finalizing"), scan(9, 3, status="finalized", seen=1)])
    assert shelf.fold(log[1:]).invalidations == []
    assert shelf.query("SELECT status, seen, ended_at > started_at FROM model.scan_sessions") == [
        ("finalized", 1, True)
    ]


def test_the_last_seen_scan_of_a_readable_present_item_is_the_newest_finalized_one(shelf: Shelf) -> None:
    shelf.fold(
        placed([
            item(A, 0, generation=3),
            item(B, 1, generation=3, status="missing"),
            item(C, 2, generation=3, readable=False),
            scan(5, 3, status="finalized"),
            scan(8, 4, status="failed"),
            item(D, 5, generation=9),
        ])
    )  # fmt: skip
    seen = dict(shelf.query("SELECT media_id, last_seen_generation FROM api.items"))
    assert seen == {A: 5, B: 3, C: 3, D: 9}


def test_an_alias_of_the_library_replaces_what_the_door_had_computed(shelf: Shelf) -> None:
    shelf.query("INSERT INTO core.media_aliases VALUES ('home', 'u-1', %s), ('home', 'u-2', %s)", A, C)
    shelf.fold(placed([item(B, 0), aliased("u-1", B, 1)]))
    found = shelf.query("SELECT upstream_media, media_id FROM core.media_aliases ORDER BY 1", role="door")
    assert found == [("u-1", B), ("u-2", C)]
    assert shelf.query("SELECT aliases, version FROM api.media") == [(["u-1"], 1)]


def test_known_files_are_found_by_folder_byte_for_byte_with_an_index(shelf: Shelf) -> None:
    strange = b"\xff\xfe/" + b"x" * 3_900
    paths = (b"top.mp3", b"a/b/c.mp3", strange + b"/d.mp3")
    shelf.fold(placed([item(A, 0, locators=tuple(Locator(path, 1, 2, -3, 4) for path in paths)),
                       item(B, 1, status="deleted")]))  # fmt: skip
    ask = "SELECT path, size, mtime_ns, device, inode FROM api.known_files WHERE source_id = 'home' AND folder = %s"
    ask += " AND sha256(folder) = sha256(%s)"
    for path in paths:
        folder = folder_of(path)
        assert shelf.query(ask, folder, folder, role="worker") == [(path, 1, 2, -3, 4)]
    assert shelf.query(ask, b"Bach", b"Bach", role="worker") == []
    shelf.fold(placed([item(f"{n:032x}", n, locators=(Locator(b"%d/x" % n, 1, 2, 3, 4),)) for n in range(2, 3_000)]))
    shelf.query("ANALYZE model.media_locators, model.media_items")
    plan = "\n".join(row[0] for row in shelf.query("EXPLAIN " + ask, b"7", b"7"))
    assert "media_locators_by_folder" in plan


def renamed(name: str) -> ItemDetails:
    """What is in the album, under this name of the album."""
    return details(collections=(CollectionRef("album", "organ", name),))


LOG = (
    item(A, 0, details=renamed("first")),
    scan(3, 1, status="finalized"),
    item(B, 2, details=renamed("late")),
    item(B, 3, details=renamed("late"), status="missing"),
    aliased("u-1", A, 4),
    scan(5, 5, status="finalized"),
    held(True, 6),
    item(C, 7, details=renamed("late"), locators=()),
    item(A, 8, details=renamed("newest")),
    item(D, 9, source_id="flat"),
    merged("e" * 32, "f" * 32, 10),
    scan(8, 11),
)
"""Every way a record may come late: 2, 4 to 7 and 9 are of media, names, scans and a source that others are of too."""


@pytest.mark.parametrize("late", [(2,), (3,), (4,), (5,), (6,), (7,), (9,), (2, 3, 4, 5, 6, 7, 9), (7, 5, 3)])
def test_what_is_folded_late_takes_nothing_back_and_leaves_the_rows_of_the_log(
    shelf: Shelf, late: tuple[int, ...]
) -> None:
    log = placed(LOG)
    shelf.fold(log)
    whole = shelf.rows()
    digests = shelf.digests()
    shelf.clear()
    shelf.fold([record for number, record in enumerate(log) if number not in late])
    for number in late:
        shelf.fold_late(log[number])
    assert shelf.rows() == whole
    assert shelf.digests() == digests


def test_a_hold_that_was_lifted_since_does_not_come_back_late(shelf: Shelf) -> None:
    log = placed([held(True, 0), held(True, 1), held(False, 2), item(A, 3)])
    shelf.fold([log[0], *log[2:]])
    shelf.fold_late(log[1])
    assert shelf.query("SELECT held, held_removals, version FROM model.source_state") == [(False, 2, 3)]


@pytest.mark.parametrize("late", [item(A, 0), merged(A, C, 0), merged(B, C, 0)])
def test_media_that_were_merged_since_are_left_to_a_rebuild(shelf: Shelf, late: Change) -> None:
    log = placed([late, item(B, 1), item(C, 2), merged(A, B, 3)])
    shelf.fold(log[1:])
    before = shelf.digests()
    with pytest.raises(Permanent, match="playhead rebuild library"):
        shelf.fold_late(log[0])
    assert shelf.digests() == before

"""What a change of a library means for each table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from projections.models import library_sql as sql
from projections.models.library import LibraryProjection
from projections.models.library_rows import (
    collection_id,
    collection_key,
    collections_of,
    folder_of,
    item_key,
    item_row,
    locator_rows,
    reason_of,
    scan_row,
    shown,
)
from schemas.library import CollectionRef, Locator
from schemas.position import SourcePosition
from streams.runtime.errors import Permanent
from tests.projections.changes import (
    ALBUM,
    aliased,
    details,
    held,
    item,
    merged,
    partition_for,
    placed,
    scan,
)

A, B = "a" * 32, "b" * 32


def test_cache_keys_are_named_as_documented() -> None:
    assert item_key("m") == "item:m"
    assert collection_key("c") == "collection:c"


def test_a_collection_is_told_from_others_by_source_kind_and_key() -> None:
    ids = {
        collection_id(source, kind, key)
        for source in ("home", "flat")
        for kind in ("album", "artist")
        for key in ("one", "two")
    }
    assert len(ids) == 8
    assert {len(one) for one in ids} == {32}
    assert collection_id("home", "album", "é") == collection_id("home", "album", "é".encode())


@pytest.mark.parametrize(
    ("path", "folder"), [(b"a/b/c.mp3", b"a/b"), (b"c.mp3", b""), (b"\xff/c", b"\xff"), (b"/c", b"")]
)
def test_a_folder_is_the_path_up_to_its_last_slash(path: bytes, folder: bytes) -> None:
    assert folder_of(path) == folder


def test_a_path_that_is_no_text_is_shown_escaped() -> None:
    assert shown(b"a\xff/\xc3\xa9\x00") == "a\\xff/é\\x00"


def test_folders_follow_from_where_an_item_lies_whatever_its_details_say() -> None:
    told = (CollectionRef("folder", "old/place", "place"), CollectionRef("album", "organ", "Organ Works"))
    event = item(
        locators=tuple(Locator(path, None, None, None, None) for path in (b"a/b/1", b"a/b/2", b"\xff/1", b"top")),
        details=details(collections=told),
    )
    found = {(ref.kind, ref.key, ref.name) for ref in collections_of(event).values()}
    assert found == {("album", "organ", "Organ Works"), ("folder", "a/b", "b"), ("folder", "\\xff", "\\xff")}
    assert ALBUM in collections_of(event)


def test_two_folders_that_are_shown_alike_are_two_collections() -> None:
    paths = (b"\xff/1", b"\\xff/1")
    event = item(locators=tuple(Locator(path, None, None, None, None) for path in paths), details=None)
    assert len(collections_of(event)) == 2


def test_rows_have_the_columns_of_their_tables() -> None:
    [record] = placed([item()])
    for event in (item(), item(details=None)):
        assert len(item_row(event, False, record)) == len(sql.ITEM_COLUMNS)
    assert {len(row) for row in locator_rows(item())} == {len(sql.LOCATOR_COLUMNS)}
    row = dict(zip(sql.SCAN_COLUMNS, scan_row(record, scan(status="held"), 5), strict=True))
    assert (row["held_at"], row["ended_at"]) == (5, None)
    for status in ("finalized", "failed", "cancelled", "superseded", "incomplete"):
        row = dict(zip(sql.SCAN_COLUMNS, scan_row(record, scan(status=status, number=4), None), strict=True))
        assert row["ended_at"] == row["changed_at"]


def test_an_invalidation_says_why() -> None:
    assert reason_of(item(changes=("moved", "alias"))) == "moved alias"
    assert reason_of(item(changes=(), status="missing")) == "missing"
    assert reason_of(aliased("u", A)) == "aliased"
    assert reason_of(merged(A, B)) == "merged"


@pytest.mark.parametrize("event", [item(), aliased("u", A), merged(A, B), scan(), held(True)])
def test_a_change_in_its_place_is_accepted(event: Any) -> None:
    assert LibraryProjection().accept(b"home", event, partition_for("home")) is event


def test_what_disagrees_with_its_key_or_place_or_makes_no_row_is_refused_with_its_cause() -> None:
    here = partition_for("home")
    elsewhere = (here + 1) % 12

    def cause_of(event: Any, key: bytes = b"home", partition: int = here) -> str:
        with pytest.raises(Permanent) as refused:
            LibraryProjection().accept(key, event, partition)
        return refused.value.cause

    assert cause_of(item(), b"flat") == "key_mismatch"
    assert cause_of(item(), partition=elsewhere) == "wrong_partition"
    assert cause_of(item(cause=SourcePosition("t", elsewhere, 0, 0))) == "wrong_partition"
    for strange in (
        item(cause=SourcePosition("t", here, -1, 0)),
        item(cause=SourcePosition("t", here, 0, -1)),
        item(""),
        item(status="lost"),
        aliased("", A),
        aliased("u", ""),
        merged(A, A),
        merged("", A),
        merged(A, ""),
        scan(-1),
        scan(status="perhaps"),
    ):
        assert cause_of(strange) == "invalid_value"
    nobodys = replace(item(), source_id="", cause=SourcePosition("t", partition_for(""), 0, 0))
    assert cause_of(nobodys, b"", partition_for("")) == "invalid_value"
    assert cause_of(object()) == "wrong_event"

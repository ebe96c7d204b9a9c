"""What single records say of the transaction that they are part of; what brokers say is tested against real ones."""

from __future__ import annotations

import struct

import pytest
from confluent_kafka import Message

from streams.engine import SourcePosition
from streams.engine.changelog import SourceMark, changelog_name, source_key, table_of
from streams.engine.evidence import Claim, claim_of, offset_claim_of

POSITION_HEADER = [SourcePosition("source", "id", 3, 41, 7).header()]


def message(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, str | bytes | None]] | None = None
) -> Message:
    return Message(topic="t", partition=3, offset=0, key=key, value=value, headers=headers)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


OFFSET_KEY = struct.pack(">h", 1) + text("group") + text("source") + struct.pack(">i", 3)
OFFSET = struct.pack(">hqi", 3, 42, -1) + text("") + struct.pack(">q", 0)


def test_given_a_record_with_a_position_then_it_says_how_far_its_source_is_processed() -> None:
    assert claim_of(message(b"k", b"v", [*POSITION_HEADER])) == Claim(("source", 3), 42)


def test_given_a_mark_of_before_changelogs_had_positions_then_it_says_so_as_well() -> None:
    mark = SourceMark("id", 42, 4, (("table", "another"),))
    assert claim_of(message(source_key("source"), mark.encode())) == Claim(("source", 3), 42)


@pytest.mark.parametrize(
    "record",
    [
        message(b"k", b"v"),
        message(None, b"v"),
        message(source_key("source"), None),
        message(source_key("source"), b"no mark"),
        message(b"k", b"v", [("source-position", b"nonsense")]),
    ],
)
def test_given_a_record_of_somebody_else_then_it_says_nothing(record: Message) -> None:
    assert claim_of(record) is None


def test_given_a_groups_offset_as_brokers_keep_it_then_it_is_read() -> None:
    assert offset_claim_of(message(OFFSET_KEY, OFFSET)) == Claim(("source", 3), 42, "group")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (struct.pack(">h", 2) + text("group"), b"members"),
        (OFFSET_KEY, None),
        (None, OFFSET),
        (OFFSET_KEY[:9], OFFSET),
        (OFFSET_KEY, OFFSET[:5]),
        (b"\0", OFFSET),
    ],
)
def test_given_another_record_of_that_topic_then_it_is_no_offset(key: bytes | None, value: bytes | None) -> None:
    assert offset_claim_of(message(key, value)) is None


def test_given_a_changelog_then_its_table_is_known() -> None:
    assert table_of("a-group", changelog_name("a-group", "a-table")) == "a-table"

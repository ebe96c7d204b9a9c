from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine import SOURCE_POSITION, SourcePosition

NAMES = st.text("abcXYZ019._-", min_size=1, max_size=30)
NUMBERS = st.integers(0, 2**63 - 1)


@settings(deadline=None)
@given(NAMES, NAMES, NUMBERS, NUMBERS, NUMBERS)
def test_given_any_position_then_its_header_reads_back(
    topic: str, topic_id: str, partition: int, offset: int, index: int
) -> None:
    position = SourcePosition(topic, topic_id, partition, offset, index)
    assert SourcePosition.from_headers([("other", b"x"), position.header()]) == position


def test_given_no_such_header_then_none() -> None:
    assert SourcePosition.from_headers(None) is None
    assert SourcePosition.from_headers([("a", b"b")]) is None


def test_given_two_headers_then_the_last_counts() -> None:
    first, second = SourcePosition("a", "i", 0, 1, 0), SourcePosition("b", "i", 0, 2, 0)
    assert SourcePosition.from_headers([first.header(), second.header()]) == second


@pytest.mark.parametrize("text", [b"", b"a/b/0/1", b"a/b/0/1/x", b"a/b/-1/1/0", b"/b/0/1/0", b"a/b/0/1/0/2", b"\xff"])
def test_given_a_malformed_header_then_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a source position"):
        SourcePosition.from_headers([(SOURCE_POSITION, text)])


def test_given_a_reader_of_positions_then_faust_is_not_loaded() -> None:
    code = "import sys, streams.engine.position; sys.exit('faust' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0

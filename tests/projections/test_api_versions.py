"""Entity tags and cursors."""

from __future__ import annotations

import base64
import json

import pytest

from projections.api.versions import Version, cursor_of, matches, read_cursor
from streams.runtime.problems import Problem

TAG = Version(1, 2, 3, 40).etag


def test_a_tag_holds_epochs_and_offset() -> None:
    assert TAG == '"1.2.40"'


@pytest.mark.parametrize("header", [TAG, f"W/{TAG}", f'"a", {TAG}', "*", " * ", f'W/"x",W/{TAG}'])
def test_if_none_match_in_all_its_forms_matches(header: str) -> None:
    assert matches(header, TAG)


@pytest.mark.parametrize("header", [None, "", '"1.2.4"', "1.2.40", '"1.2.400"', "garbage"])
def test_other_versions_do_not_match(header: str | None) -> None:
    assert not matches(header, TAG)


def test_a_cursor_comes_back_as_it_was() -> None:
    assert read_cursor(cursor_of(17, "m-ü"), int, str) == [17, "m-ü"]
    assert read_cursor(None, int) is None


def forged(values: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "", "!", "AAAA", "é", forged({}), forged([1]), forged(["x", 1]), forged([1, 2]), forged([True, "x"]),
        forged([2**63, "x"]), forged([1, "a\0"]), forged([1, "\ud800"]), forged([[], "x"]), forged([1, "x", 2]),
        base64.urlsafe_b64encode(b"[" * 700).decode(),
    ],
)  # fmt: skip
def test_a_cursor_nobody_gave_out_is_refused(cursor: str) -> None:
    with pytest.raises(Problem) as refused:
        read_cursor(cursor, int, str)
    assert refused.value.status_code == 422

"""The shared readers: times, documents, fields and multipart bodies at their edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.ingest.hooks.checks import Refuse
from streams.ingest.hooks.documents import decode, load_json
from streams.ingest.hooks.fields import Fields, display, provider_ids
from streams.ingest.hooks.moments import parse_moment
from streams.ingest.hooks.multipart import text_part

STEADY = settings(derandomize=True, deadline=None)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(Refuse) as caught:
        act()
    return caught.value.reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-05-04T10:30:00.7654321Z", 1_777_890_600_765),
        ("2026-05-04T10:30:00.999999999Z", 1_777_890_600_999),
        ("2026-05-04 10:30:00", 1_777_890_600_000),
        ("2026-05-04t10:30:00z", 1_777_890_600_000),
        ("2026-05-04T12:30:00+0200", 1_777_890_600_000),
        ("2026-05-04T05:00:00-05:30", 1_777_890_600_000),
        ("2016-12-31T23:59:60Z", 1_483_228_799_000),
        ("0001-01-01T00:00:00.0000000", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("9999-12-31T23:59:59-23:59", None),
        ("2026-02-30T00:00:00Z", None),
        ("2026-05-04", None),
        ("5/4/2026 10:30:00 AM", None),
        ("٢٠٢٦-05-04T10:30:00Z", None),
        ("", None),
        ("2026-05-04T10:30:00Z" + " " * 100 + "x", 1_777_890_600_000),
    ],
)
def test_moment_is_read_as_epoch_ms_or_not_at_all(text: str, expected: int | None) -> None:
    assert parse_moment(text) == expected


@pytest.mark.parametrize("text", ['"\\"' * 200_000, "[]" * 400_000, '"' + "\\" * 900_000, '{"a":"' + "[" * 900_000])
def test_depth_check_is_linear_in_hostile_text(text: str) -> None:
    assert refusal(lambda: load_json(text)) == "bad_json"


def test_brackets_inside_strings_are_no_depth() -> None:
    assert load_json('{"a": "' + "[{" * 50 + '\\"["}') == {"a": "[{" * 50 + '"['}


def test_depth_32_is_allowed_and_33_is_not() -> None:
    assert load_json("[" * 32 + "]" * 32) is not None
    assert refusal(lambda: load_json("[" * 33 + "]" * 33)) == "too_deep"


def test_siblings_do_not_add_to_the_depth_nor_take_from_it() -> None:
    siblings = "[" + "[]," * 100
    assert len(load_json(siblings + "[" * 31 + "]" * 32)) == 101
    assert refusal(lambda: load_json(siblings + "[" * 32 + "]" * 33)) == "too_deep"


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "[1e999]", "9" * 5000, "{} {}", "{'a': 1}"])
def test_what_json_does_not_allow_is_refused(text: str) -> None:
    assert refusal(lambda: load_json(text)) == "bad_json"


def test_body_of_exactly_1_mib_is_read() -> None:
    assert len(decode(b"x" * 1024 * 1024)) == 1024 * 1024
    assert refusal(lambda: decode(b"x" * (1024 * 1024 + 1))) == "too_large"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        ("False", False),
        (" TRUE ", True),
        (1, True),
        (0, False),
        (2, None),
        ("maybe", None),
        ("", None),
        (1.0, None),
        (None, None),
    ],
)
def test_flag_reads_what_servers_mean(value: object, expected: bool | None) -> None:
    assert Fields({"x": value}).flag("x") is expected


@pytest.mark.parametrize("value", [10**30, "9" * 21, "1e300", float(2**70), "0x10", "1_000", "١", True, [], {}])
def test_number_that_is_none_is_refused(value: object) -> None:
    assert refusal(lambda: Fields({"x": value}).whole("x", "bad")) == "bad"


def test_fraction_is_no_whole_number_but_a_length_of_time() -> None:
    assert refusal(lambda: Fields({"x": 1.25}).whole("x", "bad")) == "bad"
    assert Fields({"x": "1.25"}).milliseconds("x", "bad", per_unit=1000) == 1_250


def test_ticks_are_rounded_down_and_float_seconds_to_the_nearest_ms() -> None:
    assert Fields({"x": 24_123_456_789}).ticks("x", "bad") == 2_412_345
    assert Fields({"x": 3600.567}).milliseconds("x", "bad", per_unit=1000) == 3_600_567


def test_whole_number_is_an_id_and_other_types_are_none() -> None:
    assert Fields({"x": 1001}).identifier("x") == "1001"
    odd = Fields({"flag": True, "fraction": 1.5, "list": [], "object": {}})
    for name in odd.names():
        assert refusal(partial(odd.identifier, name)) == "bad_id"


@STEADY
@given(st.text())
def test_display_text_is_always_printable_and_short(text: str) -> None:
    shown = display(text)
    assert shown is None or (len(shown.encode()) <= 1024 and "\x00" not in shown)


def test_unusable_provider_ids_are_left_out() -> None:
    pairs: dict[str, object] = {"Imdb": "tt1", "Tmdb": 5, "Long": "x" * 300, "Nul": "\x00", "Odd": [], "None": None}
    assert provider_ids(pairs) == {"imdb": "tt1", "tmdb": "5"}
    assert len(provider_ids({f"p{n}": "1" for n in range(100)})) == 32


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", "bad_multipart"),
        (b"--b", "bad_multipart"),
        (b"--\r\nx", "bad_multipart"),
        (b"--" + b"b" * 300 + b"\r\n", "bad_multipart"),
        (b"--b\r\n", "bad_multipart"),
        (b"--b\r\n--b--\r\n", "no_payload"),
        (b"--b--\r\n", "bad_multipart"),
    ],
)
def test_body_that_is_no_multipart_is_refused(body: bytes, expected: str) -> None:
    assert refusal(lambda: text_part(body, "payload")) == expected


def test_boundary_and_part_headers_have_limits() -> None:
    def body(marker: bytes, padding: bytes = b"") -> bytes:
        headers = b"\r\nX: " + padding + b'\r\nContent-Disposition: form-data; name="data"\r\n\r\n{}\r\n'
        return marker + headers + marker + b"--"

    assert text_part(body(b"--" + b"b" * 200), "data") == b"{}"
    assert refusal(lambda: text_part(body(b"--" + b"b" * 201), "data")) == "bad_multipart"
    assert text_part(body(b"--b", b"x" * 4_000), "data") == b"{}"
    assert refusal(lambda: text_part(body(b"--b", b"x" * 4_096), "data")) == "no_payload"


def test_multipart_body_of_exactly_1_mib_is_read() -> None:
    start, end = b'--b\r\nContent-Disposition: form-data; name="data"\r\n\r\n', b"\r\n--b--"
    content = b"x" * (1024 * 1024 - len(start) - len(end))
    assert text_part(start + content + end, "data") == content
    assert refusal(lambda: text_part(start + content + b"x" + end, "data")) == "too_large"


def test_word_is_short() -> None:
    assert Fields({"x": "w" * 256}).word("x") == "w" * 256
    assert Fields({"x": "w" * 257}).word("x") is None


def test_unquoted_part_name_is_read() -> None:
    body = b"--b\r\nContent-Disposition: form-data; name=payload\r\n\r\n{}\r\n--b--"
    assert text_part(body, "payload") == b"{}"


def test_content_keeps_its_own_line_breaks() -> None:
    body = b'--b\r\nContent-Disposition: form-data; name="data"\r\n\r\na\r\n\r\n--bb\r\nc\r\n--b--'
    assert text_part(body, "data") == b"a\r\n\r\n--bb\r\nc"

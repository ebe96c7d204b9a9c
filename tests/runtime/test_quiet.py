"""Client libraries repeat themselves."""

from __future__ import annotations

import logging

from streams.runtime.quiet import QuietRepeats, quieted


def line(text: str) -> logging.LogRecord:
    return logging.LogRecord("lib", logging.ERROR, "f", 1, text, (), None)


def test_a_message_passes_once_whatever_its_numbers() -> None:
    quiet = QuietRepeats(repeat_s=60)
    assert quiet.filter(line("connect to 127.0.0.1:9092 failed after 3ms"))
    assert not quiet.filter(line("connect to 127.0.0.1:9093 failed after 12ms"))
    assert quiet.filter(line("authentication failed"))


def test_it_passes_again_after_a_while() -> None:
    quiet = QuietRepeats(repeat_s=0)
    assert quiet.filter(line("away"))
    assert quiet.filter(line("away"))


def test_what_is_remembered_is_bounded() -> None:
    quiet = QuietRepeats(repeat_s=60)
    for index in range(2_000):
        quiet.filter(line("x" * index))
    assert len(quiet._last) <= 200


def test_quieting_twice_filters_once() -> None:
    assert quieted("tests.quiet") is quieted("tests.quiet")
    assert len(logging.getLogger("tests.quiet").filters) == 1

"""Ports are free when chosen, and the same the next time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from streams.local import ports


@pytest.fixture
def taken() -> Iterator[int]:
    port = ports.choose()
    with socket.socket() as server:
        server.bind((ports.LOOPBACK, port))
        server.listen(1)
        yield port


def test_given_a_listener_then_its_port_is_not_free(taken: int) -> None:
    assert not ports.is_free(taken)
    assert ports.is_listening(taken)


def test_given_a_chosen_port_then_it_is_free_and_not_one_to_avoid() -> None:
    first = ports.choose()
    second = ports.choose(avoid=[first])
    assert ports.is_free(first)
    assert first != second


def test_given_a_second_start_then_the_ports_are_the_same(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = ports.remembered(file, ["a", "b"], {})
    assert ports.remembered(file, ["a", "b"], {}) == first
    assert len(set(first.values())) == 2


def test_given_a_taken_port_then_only_that_one_changes(tmp_path: Path, taken: int) -> None:
    file = tmp_path / "ports.json"
    free = ports.choose()
    file.write_text(f'{{"a": {taken}, "b": {free}}}')
    again = ports.remembered(file, ["a", "b"], {})
    assert again["b"] == free
    assert again["a"] != taken
    assert ports.remembered(file, ["a", "b"], {}) == again


def test_given_a_fixed_port_then_it_wins_and_is_remembered(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    ports.remembered(file, ["a"], {})
    fixed = ports.choose()
    assert ports.remembered(file, ["a"], {"a": fixed}) == {"a": fixed}
    assert ports.remembered(file, ["a"], {}) == {"a": fixed}

"""Which open transactions hang, in what order they are aborted, and how brokers are asked; no services."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from aiokafka.protocol.types import Int32

from streams.engine import Crash, Refused
from streams.engine.hanging import OFFSETS_TOPIC, offsets_partition
from streams.engine.protocol import Exactly, describe_producers, write_markers
from streams.engine.repair import TRANSACTIONS_TOPIC, Findings, Hanging, Pending, _find
from streams.engine.topics import Needed
from streams.engine.wire import Known, Open, connection_settings

from .fakes import config

NEEDED = Needed((), ("log",), ("out",))


class FakeWire:
    """A cluster: two partitions each, what leaders have open at each look, what coordinators know."""

    def __init__(
        self, *looks: list[Open], known: list[Known] | None = None, leaderless: set[str] | None = None
    ) -> None:
        self._looks = list(looks)
        self._known = known or []
        self._leaderless = leaderless or set()

    async def leaders(self, topic: str) -> dict[int, int]:
        return {} if topic == "absent" else dict.fromkeys(range(2), -1 if topic in self._leaderless else 1)

    async def open_transactions(self, partitions: Any) -> list[Open]:
        found = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        assert {(item.topic, item.partition) for item in found} <= set(partitions)
        return found

    async def known_transactions(self, producer_ids: Any) -> list[Known]:
        return [item for item in self._known if item.producer_id in set(producer_ids)]


def find(tmp_path: Path, wire: FakeWire, needed: Needed = NEEDED) -> Findings:
    patience = {"transaction_timeout": 0.1, "hanging_timeout": 0.2}
    return asyncio.run(_find(wire, config(tmp_path, **patience), needed))  # type: ignore[arg-type]


def transaction(topic: str, partition: int = 0, producer: int = 7, start: int = 5) -> Open:
    return Open(topic, partition, producer, 1, 0, start, 0)


def test_given_nothing_open_then_nothing_hangs(tmp_path: Path) -> None:
    assert find(tmp_path, FakeWire([])) == Findings((), ())


def test_given_no_coordinator_that_knows_the_producer_then_it_hangs_and_the_offsets_come_last(tmp_path: Path) -> None:
    offsets = transaction(OFFSETS_TOPIC, offsets_partition(config(tmp_path).group, 2))
    opened = [offsets, transaction("log"), transaction("out", 1), transaction("out", 0)]
    found = find(tmp_path, FakeWire(opened))
    assert [(h.role, h.transaction.topic, h.transaction.partition) for h in found.hanging] == [
        ("output", "out", 0),
        ("output", "out", 1),
        ("changelog", "log", 0),
        ("offsets", OFFSETS_TOPIC, offsets.partition),
    ]
    assert [line.split("--topic ")[1].split()[0] for line in found.commands()] == ["out", "out", "log", OFFSETS_TOPIC]


def test_given_a_transaction_of_its_coordinator_then_it_is_pending_and_others_of_its_producer_hang(
    tmp_path: Path,
) -> None:
    known = Known("app-0", 7, 1, "Ongoing", frozenset({("out", 0)}))
    found = find(tmp_path, FakeWire([transaction("out", 0), transaction("log", 0)], known=[known]))
    assert found.pending == (Pending(transaction("out", 0), "app-0", "Ongoing"),)
    assert found.hanging == (Hanging("changelog", transaction("log", 0), "app-0"),)


@pytest.mark.parametrize("second", [[], [transaction("out", start=9)]], ids=["ended", "another one"])
def test_given_a_transaction_that_ended_while_coordinators_were_asked_then_it_does_not_hang(
    tmp_path: Path, second: list[Open]
) -> None:
    assert find(tmp_path, FakeWire([transaction("out")], second)).hanging == ()


def test_given_coordinators_that_cannot_be_asked_then_nothing_is_called_hanging(tmp_path: Path) -> None:
    with pytest.raises(Crash, match="no leader"):
        find(tmp_path, FakeWire([transaction("out")], leaderless={TRANSACTIONS_TOPIC}))


def test_given_a_topic_that_is_missing_then_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="missing topic: absent"):
        find(tmp_path, FakeWire([]), Needed((), (), ("absent",)))


def test_given_findings_then_the_words_say_what_hangs_and_what_to_do() -> None:
    found = Findings((Hanging("output", transaction("out"), None),), (Pending(transaction("log"), "app-0", "Ongoing"),))
    shown = found.lines(aborted=False)
    assert shown[0] == "hangs: output out[0] from offset 5: producer 7 epoch 1 (no transactional id)"
    assert "its coordinator ends it by itself" in shown[1]
    assert "--start-offset 5" in shown[-2]
    assert "Only outputs hang" in shown[-1]
    done = found.lines(aborted=True)
    assert done[0].startswith("aborted: output out[0]")
    assert "Delete the local state" in done[-1]
    assert Findings((), ()).lines(aborted=False) == ["nothing hangs"]


def test_given_security_settings_then_they_are_translated_and_an_unknown_one_is_refused() -> None:
    assert connection_settings({"socket.keepalive.enable": True}) == {"security_protocol": "PLAINTEXT"}
    made = connection_settings(
        {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"}
    )
    context = made.pop("ssl_context")
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert made == {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "u", "sasl_plain_password": "p",
    }  # fmt: skip
    with pytest.raises(Refused, match=r"sasl\.oauthbearer\.config"):
        connection_settings({"sasl.oauthbearer.config": "x"})


def test_given_a_broker_too_old_then_the_message_is_refused_before_it_is_sent() -> None:
    message = describe_producers([("out", [0], {})], {})
    assert Exactly(message).prepare({61: (0, 0)}) is message
    with pytest.raises(Refused, match="does not speak DescribeProducersRequest"):
        Exactly(message).prepare({})


def test_given_an_abort_then_its_bytes_are_those_of_the_protocol() -> None:
    message = write_markers([(7, 1, False, [("out", [3], {})], 0, {})], {})
    expected = (
        b"\x02" + (7).to_bytes(8, "big") + (1).to_bytes(2, "big") + b"\x00"  # one marker: producer, epoch, abort
        + b"\x02" + b"\x04out" + b"\x02" + Int32.encode(3) + b"\x00"  # one topic, one partition
        + Int32.encode(0) + b"\x00" + b"\x00"  # coordinator epoch
    )  # fmt: skip
    assert message.encode() == expected

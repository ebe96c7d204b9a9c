"""Which open transactions hang, in what order they are settled, and how brokers are asked; no services."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiokafka.protocol.types import Int32

from streams.engine import Crash, Refused, repair
from streams.engine.findings import Findings, Hanging, Pending
from streams.engine.hanging import OFFSETS_TOPIC, offsets_partition
from streams.engine.logs import Logs
from streams.engine.protocol import Exactly, describe_producers, write_markers
from streams.engine.repair import TRANSACTIONS_TOPIC, _find
from streams.engine.topics import Needed
from streams.engine.verdict import Abort, Commit, Leave, Verdict, verb
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
    assert find(tmp_path, FakeWire([])) == Findings(())


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


def test_given_findings_then_the_words_say_what_hangs_what_is_proposed_and_why() -> None:
    lost = Hanging("output", transaction("out"), None, Commit("the group's offset reaches 5"))
    kept = Hanging("changelog", transaction("log"), "app-0", Abort("nothing shows it"))
    odd = Hanging("output", transaction("out", 1), None, Leave("compare by hand"))
    pending = Pending(transaction("log", 1), "app-1", "Ongoing")
    found = Findings((lost, kept, odd), (pending,), (Hanging("output", transaction("dead"), "other-3"),))
    shown = found.lines(settled=False)
    assert shown[0] == (
        "hangs: output out[0] from offset 5: producer 7 epoch 1 (no transactional id); "
        "commit: the group's offset reaches 5"
    )
    assert shown[1].endswith("(app-0); abort: nothing shows it")
    assert shown[2].endswith("leave: compare by hand")
    assert "of another app: output dead[0]" in shown[3]
    assert "its coordinator ends it by itself" in shown[4]
    assert "--settle" in shown[5]
    assert "can only abort" in shown[6]
    assert shown[8].endswith("abort --topic log --partition 0 --start-offset 5")
    assert len(shown) == 9
    done = found.lines(settled=True)
    assert done[0].startswith("committed: output out[0]")
    assert done[1].startswith("aborted: changelog log[0]")
    assert done[2].startswith("left: output out[1]")
    assert "Delete the local state" in done[-1]
    assert not any("Delete" in line for line in Findings((lost, odd)).lines(settled=True))
    assert Findings(()).lines(settled=False) == ["nothing hangs"]
    assert found.left == (odd,)


def test_given_findings_then_machines_get_the_verdicts_too() -> None:
    found = Findings((Hanging("output", transaction("out"), "app-0", Commit("it is visible")),))
    assert found.as_json() == {
        "hanging": [
            {
                "topic": "out", "partition": 0, "producer_id": 7, "producer_epoch": 1, "coordinator_epoch": 0,
                "start_offset": 5, "last_timestamp": 0, "role": "output", "transactional_id": "app-0",
                "verdict": "commit", "because": "it is visible",
            }
        ],
        "foreign": [],
        "pending": [],
    }  # fmt: skip


class FakeCluster:
    """What hangs, with the verdict each part has at first; a commit of ``shows`` is evidence for the others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *hanging: Hanging, shows: str = "") -> None:
        self.hanging = list(hanging)
        self.shows = shows
        self.members = 0
        self.written: list[tuple[str, bool]] = []
        self.killed_after = len(hanging) + 1
        self.ignores_markers = False
        monkeypatch.setattr(repair, "find_hanging", lambda *_: Findings(tuple(self.hanging)))
        monkeypatch.setattr(Logs, "__init__", lambda *_: None)
        monkeypatch.setattr(Logs, "members", lambda _: self.members)
        monkeypatch.setattr(repair, "converse", lambda _, talk: asyncio.run(talk(self)))

    async def decide(self, item: Open, *, committed: bool) -> None:
        if len(self.written) == self.killed_after:
            raise KeyboardInterrupt
        self.written.append((item.topic, committed))
        if not self.ignores_markers:
            self.hanging = [other for other in self.hanging if other.transaction != item]
        if committed and item.topic == self.shows:
            self.hanging = [replace(other, verdict=Commit("seen now")) for other in self.hanging]


def hangs(topic: str, verdict: Verdict) -> Hanging:
    return Hanging("output", transaction(topic), None, verdict)


def settle(tmp_path: Path) -> list[tuple[str, str]]:
    found = repair.settle_hanging(config(tmp_path), NEEDED)
    return [(item.transaction.topic, verb(item.verdict)) for item in found.hanging]


def test_given_parts_to_commit_and_to_abort_then_commits_come_first_and_what_they_show_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [hangs("a", Abort("")), hangs("b", Commit("")), hangs("c", Leave("")), hangs("d", Commit(""))]
    FakeCluster(monkeypatch, *parts)
    assert settle(tmp_path) == [("b", "commit"), ("d", "commit"), ("a", "abort"), ("c", "leave")]
    FakeCluster(monkeypatch, *parts, shows="d")
    assert settle(tmp_path) == [("b", "commit"), ("d", "commit"), ("a", "commit"), ("c", "commit")]


@pytest.mark.parametrize("killed_after", [0, 1, 2, 3])
def test_given_a_repair_that_is_killed_anywhere_then_the_next_one_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_after: int
) -> None:
    cluster = FakeCluster(
        monkeypatch, hangs("a", Abort("")), hangs("b", Commit("")), hangs("c", Abort("")), hangs("d", Commit("")),
        shows="d",
    )  # fmt: skip
    cluster.killed_after = killed_after
    with pytest.raises(KeyboardInterrupt):
        settle(tmp_path)
    cluster.killed_after = 99
    settle(tmp_path)
    assert sorted(cluster.written) == [(topic, True) for topic in "abcd"]


def test_given_a_transaction_that_its_coordinator_is_about_to_end_then_what_hangs_of_its_producer_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(monkeypatch, hangs("a", Leave("not over")))
    looks = [
        Findings(tuple(cluster.hanging), (Pending(transaction("log"), "app-0", "Ongoing"),)),
        Findings((hangs("a", Commit("it is over")),), (Pending(transaction("log", producer=8), "app-1", "Ongoing"),)),
        Findings(()),
    ]
    monkeypatch.setattr(repair, "find_hanging", lambda *_: looks.pop(0))
    monkeypatch.setattr(repair, "PENDING_EVERY", 0.0)
    assert settle(tmp_path) == [("a", "commit")]


def test_given_workers_at_work_or_a_marker_without_effect_then_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(monkeypatch, hangs("a", Commit("")))
    cluster.members = 2
    with pytest.raises(Refused, match="2 members"):
        settle(tmp_path)
    assert cluster.written == []
    cluster.members, cluster.ignores_markers = 0, True
    with pytest.raises(Crash, match="open still"):
        settle(tmp_path)


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


@pytest.mark.parametrize(("committed", "outcome"), [(False, b"\x00"), (True, b"\x01")])
def test_given_a_marker_then_its_bytes_are_those_of_the_protocol(committed: bool, outcome: bytes) -> None:
    message = write_markers([(7, 1, committed, [("out", [3], {})], 0, {})], {})
    expected = (
        b"\x02" + (7).to_bytes(8, "big") + (1).to_bytes(2, "big") + outcome  # one marker: producer, epoch, outcome
        + b"\x02" + b"\x04out" + b"\x02" + Int32.encode(3) + b"\x00"  # one topic, one partition
        + Int32.encode(0) + b"\x00" + b"\x00"  # coordinator epoch
    )  # fmt: skip
    assert message.encode() == expected

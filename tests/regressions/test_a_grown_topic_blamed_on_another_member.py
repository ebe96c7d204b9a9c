"""When one of an app's source topics was grown under a running group, members got other partition numbers of it than of
the rest, and some refused with "another member subscribes to other topics": a cause that was not so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

import pytest

from streams.engine import Refused
from streams.engine.group import Group
from streams.engine.logs import Logs
from tests.engine.fakes import FakeProducer, config
from tests.engine.test_consumer import FakeLogs


def test_given_topics_assigned_apart_because_one_was_grown_then_the_refusal_says_which(tmp_path: Path) -> None:
    logs = FakeLogs(2)
    with ThreadPoolExecutor(1) as pool:
        group = Group(config(tmp_path), ["a", "b"], [], [], pool, lambda *_: FakeProducer(), lambda _: cast(Logs, logs))
        group.check()
        logs.partitions = 3
        with pytest.raises(Refused, match=r"topics changed while running: a, b"):
            group.create_units({1: ["a"]}, "metadata")

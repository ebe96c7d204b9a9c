"""Where the numbers of a deployment are."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from streams.cli.deployment import Options, roles
from streams.cli.measured import SUPERVISOR, measured
from streams.local import ports
from streams.runtime import metrics
from streams.runtime.settings import Settings


def test_every_process_has_a_port_of_its_own_that_it_keeps_and_prometheus_is_told(tmp_path: Path) -> None:
    wanted = roles(Settings(), Options(agents=2))
    found = measured(wanted, Settings(), tmp_path)
    assert set(found.ports) == {role.name for role in wanted} | {SUPERVISOR}
    assert len(set(found.ports.values())) == len(found.ports)
    assert {
        role.name: int(role.environment["PLAYHEAD_METRICS__PORT"]) for role in found.roles if role.name != "serve"
    } == {name: port for name, port in found.ports.items() if name not in {"serve", SUPERVISOR}}
    assert {one["labels"]["process"]: one["targets"] for one in json.loads(found.targets.read_text())} == {
        name: [f"127.0.0.1:{port}"] for name, port in found.ports.items()
    }
    assert measured(wanted, Settings(), tmp_path).ports == found.ports


def test_the_numbers_of_a_process_answer_until_it_ends() -> None:
    with metrics.served(ports.LOOPBACK, 0) as port:
        answer = httpx.get(f"http://{ports.LOOPBACK}:{port}/metrics")
        assert "playhead_crashes_total" in answer.text
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://{ports.LOOPBACK}:{port}/metrics")

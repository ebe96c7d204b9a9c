from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streams.engine import Refused

from .fakes import config


def test_pitfall_04_given_a_producer_then_it_backs_off_10_ms_not_100(tmp_path: Path) -> None:
    assert config(tmp_path).producer(3)["retry.backoff.ms"] == 10


def test_given_a_unit_then_its_transactional_id_is_group_and_partition(tmp_path: Path) -> None:
    settings = config(tmp_path).producer(3)
    assert settings["transactional.id"] == "g-3"
    assert settings["transaction.timeout.ms"] == 15_000


def test_given_a_source_consumer_then_nothing_commits_or_resets_behind_our_back(tmp_path: Path) -> None:
    settings = config(tmp_path).source_consumer()
    assert settings["enable.auto.commit"] is False
    assert settings["auto.offset.reset"] == "error"
    assert settings["isolation.level"] == "read_committed"
    assert settings["partition.assignment.strategy"] == "range"


def test_pitfall_13_given_an_instance_id_then_membership_is_static_and_else_dynamic(tmp_path: Path) -> None:
    assert "group.instance.id" not in config(tmp_path).source_consumer()
    assert config(tmp_path, instance_id="x").source_consumer()["group.instance.id"] == "x"


def test_given_client_settings_then_every_client_has_them(tmp_path: Path) -> None:
    settings = config(tmp_path, client={"security.protocol": "SSL"})
    for made in (settings.producer(0), settings.source_consumer(), settings.restore_consumer(), settings.common()):
        assert made["security.protocol"] == "SSL"


@pytest.mark.parametrize(
    "changes",
    [
        {"client": {"isolation.level": "read_uncommitted"}},
        {"client": {"transactional.id": "x"}},
        {"group": "a/b"},
        {"bootstrap": ""},
        {"max_batch": 0},
        {"max_batch": 10, "max_buffered": 9},
        {"hanging_timeout": 10.0},
        {"flood_share": 0.0},
    ],
)
def test_given_settings_that_break_the_guarantee_then_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        config(tmp_path, **changes)

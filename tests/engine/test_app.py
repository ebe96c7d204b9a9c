from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from streams.engine import App, Crash, EngineConfig, Hung, Refused, changelog_topics
from streams.engine.batch import TableSpec
from streams.engine.errors import FloodError, exit_code
from streams.engine.group import Group
from streams.engine.topics import Needed, check_topics

from .fakes import config


async def nothing(stream: Any) -> None:
    async for _ in stream:
        pass


def test_given_tables_then_their_changelogs_are_named_after_group_and_table(tmp_path: Path) -> None:
    app = App(config(tmp_path))
    assert changelog_topics(app) == ["g-positions-changelog"]
    app.Table("b")
    app.Table("a")
    assert changelog_topics(app) == ["g-a-changelog", "g-b-changelog"]
    with pytest.raises(Refused):
        app.Table("no/slash")
    with pytest.raises(ValueError, match="already exists"):
        app.Table("a")


def test_given_agents_that_cannot_be_exactly_once_then_refused_when_declared(tmp_path: Path) -> None:
    app = App(config(tmp_path))
    app.agent(app.source("t"))(nothing)
    with pytest.raises(Refused, match="exactly one agent per topic"):
        app.agent(app.source("t"))(nothing)
    with pytest.raises(Refused, match="needs its topic"):
        app.agent("t")

    async def yields(stream: Any) -> Any:
        yield 1

    with pytest.raises(Refused, match="without yield"):
        app.agent(app.source("u"))(yields)


def test_given_an_app_without_agents_or_a_topic_with_two_roles_then_refused(tmp_path: Path) -> None:
    app = App(config(tmp_path))
    with pytest.raises(Refused, match="no agent"):
        app.group  # noqa: B018
    with pytest.raises(Refused, match="two roles"):
        Group(config(tmp_path), ["t"], [TableSpec.of("g", "a")], ["g-a-changelog"], app.pool)


def test_given_an_agent_that_writes_to_its_own_source_then_the_topic_is_needed_once(tmp_path: Path) -> None:
    group = Group(config(tmp_path), ["t"], [TableSpec.of("g", "a")], ["t", "u"], App(config(tmp_path)).pool)
    assert group.needed.all() == ("t", "g-a-changelog", "u")
    assert group.needed.outputs == ("t", "u")


def test_invariant_01_given_sends_outside_a_batch_then_refused(tmp_path: Path) -> None:
    async def main() -> None:
        app = App(config(tmp_path))
        with pytest.raises(RuntimeError, match="batch"):
            await app.producer.send("t", b"k", b"v", None, None, None)
        with pytest.raises(RuntimeError, match="batch"):
            app.producer.send_soon(None)
        with pytest.raises(RuntimeError, match="transactions"):
            await app.consumer._commit({})

    asyncio.run(main())


def test_pitfall_12_given_an_agent_that_returns_then_that_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        app = App(config(tmp_path))

        async def leaves(_: Any) -> None:
            return

        stream = type("S", (), {"should_stop": False})
        with pytest.raises(Crash, match="leaves returned"):
            await app._endless(leaves)(stream)

    asyncio.run(main())


def test_given_what_ended_the_worker_then_the_exit_code_follows_its_type() -> None:
    codes = [exit_code(e) for e in (None, RuntimeError(), Crash(), Hung(), Refused(), FloodError())]
    assert codes == [0, 1, 1, 70, 78, 78]


NEEDED = Needed(("a", "b"), ("log",), ("out",))
SETTINGS = EngineConfig(bootstrap="none:1", group="g", state_dir=Path("state"), batch_bytes=100_000)


def facts(**counts: int) -> dict[str, Any]:
    from streams.engine.logs import TopicFacts

    return {name: TopicFacts(f"id-{name}", count) for name, count in counts.items()}


def test_given_fitting_topics_then_their_partition_count() -> None:
    assert check_topics(NEEDED, facts(a=4, b=4, log=4, out=4), {}, SETTINGS) == 4


@pytest.mark.parametrize(
    ("found", "settings", "says"),
    [
        (facts(a=4, log=4), {}, "missing topics: b, out"),
        (facts(a=4, b=8, log=4, out=4), {}, "b has 8"),
        (facts(a=8, b=8, log=4, out=8), {}, "log has 4"),
        (facts(a=4, b=4, log=4, out=4), {"log": {"cleanup.policy": "compact,delete"}}, "cleanup.policy=compact,delete"),
        (facts(a=4, b=4, log=4, out=4), {"log": {"delete.retention.ms": "1000"}}, "keeps tombstones"),
        (facts(a=4, b=4, log=4, out=4), {"out": {"max.message.bytes": "99999"}}, "out has max.message.bytes=99999"),
    ],
)
def test_invariant_09_and_pitfall_11_given_topics_that_do_not_fit_then_refused_with_the_reason(
    found: dict[str, Any], settings: dict[str, dict[str, str]], says: str
) -> None:
    with pytest.raises(Refused, match=says):
        check_topics(NEEDED, found, settings, SETTINGS)

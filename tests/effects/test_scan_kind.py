"""Kind scan: which generation, repeated or not, and what follows from how it ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from schemas.library import Observation, ScanFailed, ScanListed, ScanStarted
from streams.effects.kinds import Kind
from streams.effects.kinds.scan import Scans, UpstreamFailed, scan_kind
from streams.effects.requesting import Requests
from streams.effects.scan.ports import Found, KnownFile, Look, Sighting, SourceFailed, Tally
from streams.runtime.clock import FakeClock
from streams.runtime.errors import Permanent
from streams.runtime.leases import CameToNothing, Lease, Task
from streams.runtime.schedules import Schedules
from streams.upstream.errors import CredentialsRefused, UpstreamAway


@dataclass
class World:
    """A source that lists ``found`` or fails with ``failure``, and everything a scan tells."""

    found: list[Found] = field(default_factory=list)
    failure: SourceFailed | None = None
    sent: list[Observation] = field(default_factory=list)
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    followed: list[tuple[str, bool]] = field(default_factory=list)
    case_folds: bool = False
    tally: Tally = field(default_factory=Tally)

    @contextmanager
    def opened(self) -> Iterator[World]:
        if self.failure is not None:
            raise self.failure
        yield self

    def batches(self, look: Look, *, full: bool) -> Iterator[list[Found]]:
        yield self.found

    def folder(self, source_id: str, folder: bytes) -> Mapping[bytes, KnownFile]:
        return {}

    def send(self, event: Observation) -> None:
        self.sent.append(event)

    def flush(self) -> None: ...

    def scan(self, source_id: str, requested_by: str, **options: Any) -> int:
        self.asked.append((requested_by, options))
        return 99

    def follow_up(self, source_id: str, *, again: bool) -> None:
        self.followed.append((source_id, again))

    def kind(self) -> Kind:
        return scan_kind(
            Scans(
                source=lambda _: self,
                known=lambda: nullcontext(self),
                sink=lambda _: nullcontext(self),
                requests=lambda: nullcontext(cast(Requests, self)),
                schedules=cast(Schedules, self),
                clock=FakeClock(),
            )
        )


class Held:
    """A lease that is never lost."""

    def __init__(self, *, begun: int | None = None, by: str = "operator", full: int = -1) -> None:
        payload = {"requested_by": by, "full": full}
        self.task = Task("scan", "music", "music", 1, 7, begun, payload, "c", 1, 0.0, "t")
        self.version = 7

    def check(self) -> None: ...

    def say(self, progress: Mapping[str, object]) -> None: ...

    def begin(self, version: int) -> None:
        self.version = version


def run(world: World, held: Held) -> None:
    world.kind().run(cast(Lease, held))


def started(world: World) -> ScanStarted:
    [event] = [one for one in world.sent if isinstance(one, ScanStarted)]
    return event


def test_a_scan_runs_under_the_offset_of_its_request() -> None:
    world = World([Sighting(None, "u")])
    run(world, Held(by="schedule", full=5))
    assert (started(world).generation, started(world).requested_by, started(world).full) == (7, "schedule", True)
    assert isinstance(world.sent[-1], ScanListed)
    assert (world.asked, world.followed) == ([], [])


def test_a_scan_that_was_begun_before_is_asked_for_anew_and_runs_under_that() -> None:
    world = World()
    held = Held(begun=7)
    run(world, held)
    assert world.asked == [("retry", {"full": False, "replaces": 7, "correlation_id": "c"})]
    assert (held.version, started(world).generation, started(world).requested_by) == (99, 99, "retry")


@pytest.mark.parametrize(("by", "again"), [("operator", False), ("follow_up", True)])
def test_what_is_still_being_written_has_a_follow_up(by: str, again: bool) -> None:
    world = World([Sighting(None, "u", settled=False)])
    run(world, Held(by=by))
    assert world.followed == [("music", again)]


def failed(reason: str, cause: Exception | None = None) -> SourceFailed:
    error = SourceFailed(reason, "x")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("failure", "means"),
    [
        (failed("root_missing"), CameToNothing),
        (failed("upstream", UpstreamAway("x", retry_after_s=9.0)), UpstreamFailed),
        (failed("upstream", CredentialsRefused("x")), Permanent),
    ],
    ids=["root missing", "away", "refused"],
)
def test_how_a_source_failed_decides_whether_it_is_tried_again(failure: SourceFailed, means: type[Exception]) -> None:
    world = World(failure=failure)
    with pytest.raises(means) as raised:
        run(world, Held())
    assert [type(event) for event in world.sent] == [ScanFailed]
    if isinstance(raised.value, UpstreamFailed):
        assert raised.value.retry_after_s == 9.0

"""A household as a state machine: devices play, seek, stop and lose their connection; a person gives commands.

Unlike the streams of test_properties this one makes plausible stories: positions follow play, time runs on, and
what a device could not send arrives late. Every step is checked, and at any moment replays change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from streams.domain.playback import decide
from streams.domain.policy import POLICIES
from streams.domain.report import Report
from streams.domain.state import State
from streams.domain.words import Verdict
from tests.domain.given import NOON, report
from tests.domain.invariants import check

devices = st.sampled_from(["tv", "phone", "tablet"])


class Household(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(sorted(POLICIES)), duration=st.sampled_from([100, 2400, 7200]))
    def begin(self, policy: str, duration: int) -> None:
        self.policy = POLICIES[policy]
        self.duration = duration
        self.state: State | None = None
        self.now = 0
        self.position = dict.fromkeys(("tv", "phone", "tablet"), 0)
        self.sequence = dict.fromkeys(("tv", "phone", "tablet"), 0)
        self.offline: list[Report] = []
        self.told: list[Report] = []
        self.counted: set[int] = set()

    def say(self, device: str, kind: str, position: int | None, *, online: bool, **more: Any) -> None:
        self.sequence[device] += 1
        one = report(
            kind,
            position,
            at=self.now,
            run=device,
            seq=self.sequence[device] if device != "tablet" else None,
            duration=self.duration,
            event_id=f"{device}-{self.sequence[device]}",
            **more,
        )
        if online:
            self.arrive(one)
        else:
            self.offline.append(one)

    def arrive(self, one: Report) -> None:
        late = replace(one, received_at=NOON + self.now * 1000)
        decision = decide(self.state, late, self.policy)
        check(self.state, late, decision)
        if decision.play_epoch is not None:
            assert decision.play_epoch not in self.counted
            self.counted.add(decision.play_epoch)
        if decision.verdict is not Verdict.DUPLICATE:
            self.told.append(late)
        self.state = decision.state

    @rule(device=devices, steps=st.integers(1, 8), online=st.booleans())
    def play(self, device: str, steps: int, online: bool) -> None:
        for _ in range(steps):
            self.now += 10
            self.position[device] = min(self.duration, self.position[device] + 10)
            self.say(device, "progress", self.position[device], online=online)

    @rule(device=devices, kind=st.sampled_from(["start", "pause", "resume", "stop", "finish"]), online=st.booleans())
    def turn(self, device: str, kind: str, online: bool) -> None:
        self.now += 1
        self.say(device, kind, self.position[device], online=online)

    @rule(device=devices, kind=st.sampled_from(["start", "stop"]), position=st.sampled_from([None, 0]))
    def unload(self, device: str, kind: str, position: int | None) -> None:
        self.now += 1
        self.say(device, kind, position, online=True)

    @rule(device=devices, share=st.integers(0, 100), online=st.booleans())
    def seek(self, device: str, share: int, online: bool) -> None:
        self.now += 2
        self.position[device] = self.duration * share // 100
        self.say(device, "seek", self.position[device], online=online)

    @rule(
        kind=st.sampled_from(["mark_played", "mark_unplayed", "clear_position", "set_position"]),
        share=st.integers(0, 100),
    )
    def command(self, kind: str, share: int) -> None:
        self.now += 1
        place = self.duration * share // 100 if kind == "set_position" else None
        self.arrive(report(kind, place, at=self.now, run=None, device="web", event_id=f"web-{self.now}"))

    @rule(seconds=st.sampled_from([11, 60, 1900, 90_000]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(data=st.data())
    def reconnect(self, data: st.DataObject) -> None:
        if self.offline:
            for one in data.draw(st.permutations(self.offline)):
                self.arrive(one)
            self.offline = []

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        if self.told:
            again = data.draw(st.sampled_from(self.told[-64:]))
            assert decide(self.state, again, self.policy).state == self.state


TestHousehold = Household.TestCase
TestHousehold.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

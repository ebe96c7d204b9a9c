"""Media that turn out to be one, through the agent's steps with tables that are dictionaries."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import PlaybackDecided
from schemas.ids import SchemaIds
from schemas.library import MediaMerged
from schemas.limits import JOINED_MAX
from schemas.placement import playback_key
from schemas.position import SourcePosition
from schemas.topics import MEDIA_MERGED, PLAYBACK_REPORTED
from streams.agents import aliases as alias_rows
from streams.agents import playback
from streams.agents import state as rows
from streams.agents.aliases import MediaAlias
from streams.agents.merges import keep, touch
from streams.domain.policy import PLAYTHROUGH
from streams.domain.state import State, shown
from streams.engine import Refused
from streams.runtime.contract import Contract
from streams.runtime.errors import ConfigurationError, Permanent, Unavailable
from tests.agents.rows import DictRows
from tests.agents.test_playback_agent import HOME, LOGGED_AT, REPORT, USER, Batch, Record, _Registry

# The survivor's id is the larger one: the library names it, the ids do not.
A, B, C = "a" * 32, "b" * 32, "c" * 32
CONTRACT = Contract(SchemaIds(), registry=None)
MINUTE = 60_000


def merge_event(media: str, survivor: str) -> MediaMerged:
    return MediaMerged(
        event_id="e-m",
        correlation_id="c-m",
        source_id="home",
        received_at=LOGGED_AT,
        cause=SourcePosition("library-topic", 3, 4, 1),
        media_id=media,
        survivor=survivor,
    )


def survivor_of(aliases: dict[bytes, bytes], media: str) -> str:
    return touch(aliases, {}, USER, media).media


@dataclass
class House:
    """The agent's two tables in one partition, and what it said."""

    progress: DictRows = field(default_factory=DictRows)
    aliases: dict[bytes, bytes] = field(default_factory=dict)
    said: list[PlaybackDecided] = field(default_factory=list)
    sent: list[tuple[str, bytes, bytes, int]] = field(default_factory=list)

    def report(self, media: str, **changes: Any) -> PlaybackDecided:
        event = replace(REPORT, media_id=media, **changes)
        batch, record = Batch(), Record(playback_key(USER, media), CONTRACT.encode(event))
        assert playback.process(
            cast(Any, batch), cast(Any, record), self.progress, self.aliases, {}, CONTRACT, PLAYTHROUGH
        )
        decided = CONTRACT.decode(batch.sent[0][1])
        assert isinstance(decided, PlaybackDecided)
        self.sent += batch.sent
        self.said.append(decided)
        return decided

    def merge(self, media: str, survivor: str) -> None:
        batch, record = Batch(), Record(media.encode(), CONTRACT.encode(merge_event(media, survivor)))
        assert playback.merge(cast(Any, batch), cast(Any, record), self.aliases, CONTRACT)
        assert batch.sent == []

    def state(self, media: str) -> State | None:
        row = self.progress.get(playback_key(USER, media))
        return None if row is None else rows.decode(row)


def at(minutes: int, position_ms: int, **more: Any) -> dict[str, Any]:
    when = LOGGED_AT - 1_000 * MINUTE + minutes * MINUTE
    return {
        "event_id": f"e-{minutes}-{position_ms}",
        "occurred_at": when,
        "received_at": when,
        "position_ms": position_ms,
        "sequence": None,
        **more,
    }


def test_given_a_merge_the_next_report_under_the_ended_media_lands_in_the_survivor() -> None:
    house = House()
    house.report(B, **at(0, 600_000, session_id="tv", listened_ms=5_000))
    house.report(A, **at(5, 900_000, session_id="phone", listened_ms=7_000))
    house.merge(A, B)
    decided = house.report(A, **at(6, 960_000, session_id="phone", listened_ms=67_000))
    assert (decided.media_id, decided.position_ms, decided.listened_ms) == (B, 960_000, 72_000)
    assert decided.joined == (A,)
    assert house.sent[-1][2:] == (playback_key(USER, B), HOME)
    assert house.state(A) == State(user=USER, media=A, merged_into=B)
    again = house.report(B, **at(7, 1_020_000, session_id="phone", listened_ms=127_000))
    assert (again.listened_ms, again.joined) == (132_000, (A,))


def test_given_a_report_that_changes_nothing_the_states_are_joined_all_the_same() -> None:
    house = House()
    house.report(B, **at(0, 600_000))
    house.report(A, **at(5, 900_000, session_id="phone"))
    house.merge(A, B)
    decided = house.report(A, **at(5, 900_000, session_id="phone"))
    assert (decided.verdict, decided.media_id, decided.position_ms) == ("duplicate", B, 900_000)
    state = house.state(B)
    assert state is not None
    assert (state.position_ms, [taken.media for taken in state.merged_from]) == (900_000, [A])
    before = dict(house.progress)
    house.report(A, **at(5, 900_000, session_id="phone"))
    assert house.progress == before


def test_given_nothing_was_played_under_the_survivor_it_starts_with_what_the_ended_media_had() -> None:
    house = House()
    house.report(A, **at(0, 600_000))
    house.merge(A, B)
    decided = house.report(B, **at(1, 660_000))
    assert (decided.media_id, decided.epoch, decided.joined) == (B, 1, (A,))


def test_given_nothing_was_played_under_the_ended_media_nothing_is_joined() -> None:
    house = House()
    house.merge(A, B)
    assert house.report(A, **at(0, 600_000)).joined == ()
    assert house.state(A) is None


def test_given_chains_in_any_order_and_repeated_all_lead_to_the_last() -> None:
    merges = [(A, B), (B, C), ("d" * 32, A), (A, B)]
    for order in itertools.permutations(merges):
        house = House()
        for number, media in enumerate((A, B, C, "d" * 32)):
            house.report(media, **at(number, 600_000 + number * MINUTE, session_id=media, listened_ms=1_000))
        for media, survivor in order:
            house.merge(media, survivor)
        assert {survivor_of(house.aliases, media) for media in (A, B, C, "d" * 32)} == {C}
        decided = house.report("d" * 32, **at(9, 900_000, session_id="d", listened_ms=1_000))
        assert (decided.media_id, decided.joined, decided.listened_ms) == (C, (A, B, "d" * 32), 5_000)


def test_given_a_survivor_that_has_taken_in_another_ends_itself_both_are_taken_once() -> None:
    house = House()
    for number, media in enumerate((A, B, C)):
        house.report(media, **at(number, 600_000 + number * MINUTE, session_id=media, listened_ms=1_000))
    house.merge(A, B)
    house.report(B, **at(4, 840_000, session_id=B, listened_ms=2_000))
    house.merge(B, C)
    decided = house.report(A, **at(5, 900_000, session_id=B, listened_ms=3_000))
    assert (decided.media_id, decided.joined, decided.listened_ms) == (C, (A, B), 5_000)
    state = house.state(B)
    assert state is not None
    assert state.merged_into == C


def test_given_a_circle_the_first_survivor_stays_the_survivor() -> None:
    aliases: dict[bytes, bytes] = {}
    keep(aliases, A, B)
    before = dict(aliases)
    for media, survivor in ((B, A), (A, A), (B, B), (A, B)):
        keep(aliases, media, survivor)
        assert aliases == before
    keep(aliases, B, C)
    keep(aliases, C, A)
    assert {survivor_of(aliases, media) for media in (A, B, C)} == {C}


def test_given_another_word_about_an_ended_media_what_it_led_to_stays_another_media() -> None:
    house = House()
    house.report(A, **at(0, 600_000, listened_ms=1_000))
    house.merge(A, B)
    house.report(B, **at(1, 660_000))
    house.merge(A, C)
    assert survivor_of(house.aliases, A) == C
    assert B.encode() not in house.aliases
    assert alias_rows.decode(house.aliases[C.encode()]) == MediaAlias(merged=(A,))
    decided = house.report(A, **at(2, 600_000, session_id="new"))
    assert (decided.media_id, decided.joined) == (C, ())


def test_given_more_ended_media_than_a_decision_can_name_the_others_keep_their_rows() -> None:
    house = House()
    many = [f"{number:032x}" for number in range(JOINED_MAX + 2)]
    for number, media in enumerate(many):
        house.report(media, **at(number, 600_000, session_id=media, listened_ms=1_000))
        house.merge(media, B)
    decided = house.report(B, **at(99, 660_000))
    assert decided.joined == tuple(many[:JOINED_MAX])
    assert decided.listened_ms == JOINED_MAX * 1_000
    for media in many[JOINED_MAX:]:
        kept = house.state(media)
        assert kept is not None
        assert kept.listened_ms == 1_000


@dataclass(frozen=True)
class Play:
    media: str
    minute: int
    advance_ms: int
    listened_ms: int


plays = st.lists(
    st.builds(Play, st.sampled_from([A, B, C]), st.just(0), st.integers(0, 60_000), st.integers(0, 60_000)), max_size=12
)
MERGES = [(A, B), (B, C)]


@settings(max_examples=80, deadline=None)
@given(plays, st.data())
def test_given_play_that_goes_on_the_shown_state_is_the_same_wherever_the_merges_come(
    steps: list[Play], data: st.DataObject
) -> None:
    """One person moves through a film, now under this media, now under that. Positions grow below the played mark,
    times by a minute: what is decided apart and joined, and what is decided as one, can then be held together."""
    told, position, listened = [], 600_000, dict.fromkeys((A, B, C), 0)
    for number, step in enumerate(steps):
        position += step.advance_ms
        listened[step.media] += step.listened_ms
        told.append((step.media, at(number, position, session_id=step.media, listened_ms=listened[step.media])))
    shown_after = []
    for places in (
        (0, 0),
        (len(told), len(told)),
        *(tuple(data.draw(st.integers(0, len(told)), label="place of a merge") for _ in MERGES) for _ in range(2)),
    ):
        house = House()
        for number in range(len(told) + 1):
            order = data.draw(st.permutations(MERGES), label="order")
            for media, survivor in order:
                if places[MERGES.index((media, survivor))] == number:
                    house.merge(media, survivor)
            if number < len(told):
                house.report(told[number][0], **told[number][1])
        state = touch(house.aliases, house.progress, USER, A).state
        shown_after.append(None if state is None else shown(state))
    assert all(one == shown_after[0] for one in shown_after)
    if told:
        assert shown_after[0] is not None
        assert shown_after[0]["position_ms"] == position
        assert shown_after[0]["listened_ms"] == sum(listened.values())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=12))
def test_given_any_merges_every_survivor_is_the_last_and_knows_who_ended_in_it(merges: list[tuple[str, str]]) -> None:
    aliases: dict[bytes, bytes] = {}
    for media, survivor in merges:
        keep(aliases, media, survivor)
        known = {key.decode(): alias_rows.decode(row) for key, row in aliases.items()}
        for one, alias in known.items():
            if alias.survivor is not None:
                assert alias.merged == ()
                assert known[alias.survivor].survivor is None
                assert one in known[alias.survivor].merged
            else:
                assert alias.merged
                assert all(known[ended].survivor == one for ended in alias.merged)


@pytest.mark.parametrize(
    ("key", "value", "cause"),
    [
        (None, CONTRACT.encode(merge_event(A, B)), "null_key"),
        (A.encode(), None, "null_value"),
        (A.encode(), b"garbage", "bad_magic"),
        (A.encode(), CONTRACT.encode(REPORT), "wrong_event"),
        (B.encode(), CONTRACT.encode(merge_event(A, B)), "key_mismatch"),
        (A.encode(), CONTRACT.encode(merge_event(A, "")), "invalid_value"),
    ],
)
def test_given_what_is_no_merge_nothing_is_kept_and_its_cause_is_named(
    key: bytes | None, value: bytes | None, cause: str
) -> None:
    aliases: dict[bytes, bytes] = {}
    with pytest.raises(Permanent) as caught:
        playback.merge(cast(Any, Batch()), cast(Any, Record(key, value)), aliases, CONTRACT)
    assert caught.value.cause == cause
    assert not aliases


def test_given_a_merge_only_an_absent_registry_could_tell_it_is_tried_again() -> None:
    record = cast(Any, Record(A.encode(), b"\0\0\0\0\1"))
    assert not playback.merge(cast(Any, Batch()), record, {}, _Registry(Unavailable("away")))
    with pytest.raises(Refused, match="upgrade"):
        playback.merge(cast(Any, Batch()), record, {}, _Registry(ConfigurationError("upgrade Playhead")))


class _Placed(Record):
    def __init__(self, key: bytes | None, topic: str) -> None:
        super().__init__(key, None)
        self._topic = topic

    def topic(self) -> str:
        return self._topic


def test_the_alias_of_a_batch_is_read_by_the_media_in_its_keys() -> None:
    report, merge = _Placed(playback_key(USER, A), PLAYBACK_REPORTED.name), _Placed(A.encode(), MEDIA_MERGED.name)
    assert [playback.media_of(cast(Any, record)) for record in (report, merge)] == [A.encode()] * 2
    assert playback.media_of(cast(Any, _Placed(None, PLAYBACK_REPORTED.name))) is None

"""The catalogue says what the design says, and placement is Kafka's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import topics
from schemas.placement import (
    PARTITIONS,
    murmur2,
    partition_of,
    playback_key,
    playback_partition,
    split_playback_key,
)
from schemas.topics import Cleanup, Placement


def test_every_topic_has_twelve_partitions_and_its_own_log_append_time() -> None:
    for topic in topics.TOPICS:
        assert topic.partitions == PARTITIONS == 12
        assert topic.config(single_broker=True)["message.timestamp.type"] == "LogAppendTime"


def test_history_is_kept_for_ever_and_hints_and_dead_letters_are_not() -> None:
    kept = {topic: topic.config(single_broker=True).get("retention.ms") for topic in topics.TOPICS}
    assert kept[topics.PLAYBACK_REPORTED] == kept[topics.PLAYBACK_DECIDED] == "-1"
    assert kept[topics.CACHE_INVALIDATED] == str(7 * 24 * 3600 * 1000)
    assert kept[topics.DEAD_LETTERS] == str(90 * 24 * 3600 * 1000)
    assert topics.IDENTITY_USERS.cleanup is Cleanup.COMPACT


def test_a_single_broker_flushes_every_message_and_several_need_two_in_sync() -> None:
    alone = topics.PLAYBACK_REPORTED.config(single_broker=True)
    assert alone["flush.messages"] == "1"
    assert "min.insync.replicas" not in alone
    several = topics.PLAYBACK_REPORTED.config(single_broker=False)
    assert several["min.insync.replicas"] == "2"
    assert "flush.messages" not in several


def test_source_topics_take_256_kib_and_dead_letters_a_mebibyte() -> None:
    for topic in topics.TOPICS:
        assert topic.bytes_max == (1024 if topic is topics.DEAD_LETTERS else 256) * 1024


def test_only_dead_letters_may_hold_personal_data() -> None:
    assert [topic for topic in topics.TOPICS if topic.personal_data] == [topics.DEAD_LETTERS]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        # apache/kafka clients/src/test/java/org/apache/kafka/common/utils/UtilsTest.java, testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_javas_client(data: bytes, value: int) -> None:
    assert murmur2(data) == value & 0xFFFFFFFF


@given(st.text(st.characters(blacklist_characters=":", blacklist_categories=["Cs"]), min_size=1), st.text(min_size=1))
def test_a_playback_key_comes_apart_again_and_is_placed_by_the_person(user: str, media: str) -> None:
    try:
        media.encode()
    except UnicodeEncodeError:
        return
    key = playback_key(user, media)
    assert split_playback_key(key) == (user, media)
    assert playback_partition(key) == partition_of(user.encode())


@pytest.mark.parametrize("key", [b"", b":", b"u:", b":m", b"no-colon"])
def test_a_key_of_another_form_is_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match="user_ref:media_id"):
        split_playback_key(key)
    with pytest.raises(ValueError, match="user_ref:media_id"):
        playback_partition(key)


def test_a_playback_key_needs_a_user_without_a_colon_and_a_media() -> None:
    for user, media in (("", "m"), ("u", ""), ("u:x", "m")):
        with pytest.raises(ValueError, match="user_ref"):
            playback_key(user, media)


def test_an_event_has_one_topic_but_for_copies_of_merges_and_what_was_done_about_forgetting() -> None:
    held = [event for topic in topics.TOPICS for event in topic.holds]
    assert {event for event in held if held.count(event) > 1} == {"MediaMerged", "UserForgotten"}
    assert topics.topic_of("MediaMerged") is topics.LIBRARY_CHANGED
    assert topics.topic_of("UserForgotten") is topics.PLAYBACK_REPORTED


def test_library_topics_are_placed_by_source_and_merges_are_everywhere() -> None:
    for topic in (topics.LIBRARY_COMMANDS, topics.LIBRARY_OBSERVED, topics.LIBRARY_CHANGED):
        assert (topic.key, topic.placement) == ("source_id", Placement.KEY)
    assert topics.MEDIA_MERGED.placement is Placement.EVERY


def test_playback_topics_are_placed_by_user() -> None:
    assert topics.PLAYBACK_REPORTED.placement is topics.PLAYBACK_DECIDED.placement is Placement.USER

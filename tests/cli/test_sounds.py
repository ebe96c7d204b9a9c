"""The demo's audio files are such: others' readers find their tags and how long they are."""

from __future__ import annotations

import io

import pytest
from mutagen.mp3 import MP3
from mutagen.wave import WAVE
from tinytag import TinyTag

from streams.cli import sounds

TAGS = {"title": "Schlafstücke 潮", "artist": "Tin Harbour", "album": "Low Tide", "track": "3", "year": "1998"}


@pytest.mark.parametrize("content", [sounds.mp3(90_000, TAGS), sounds.wav(90_000, 400, TAGS)], ids=["mp3", "wav"])
def test_a_sound_has_its_tags_and_its_length(content: bytes) -> None:
    suffix = "mp3" if content.startswith(b"ID3") else "wav"
    found = TinyTag.get(f"x.{suffix}", io.BytesIO(content))
    assert (found.title, found.artist, found.album, found.track) == (TAGS["title"], TAGS["artist"], "Low Tide", 3)
    assert found.duration == pytest.approx(90, abs=0.1)


def test_an_mp3_is_frames_of_one_kind_from_its_tag_to_its_end() -> None:
    found = MP3(io.BytesIO(sounds.mp3(90_000, TAGS)))
    assert (found.info.sketchy, found.info.sample_rate, found.info.channels) == (False, 44_100, 1)
    assert found["TIT2"].text == [TAGS["title"]]


def test_a_wav_is_a_tone_of_its_pitch() -> None:
    content = sounds.wav(1_000, 400, {})
    assert WAVE(io.BytesIO(content)).info.length == 1
    wave = content[-8_000:]
    assert wave[:20] == wave[20:40] != bytes(20)


def test_a_tag_that_has_no_frame_is_refused() -> None:
    with pytest.raises(KeyError):
        sounds.mp3(1_000, {"mood": "calm"})

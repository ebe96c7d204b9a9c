"""The example of the engine's README does what it says, as a reader would run it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from streams.engine.example import Names, show

pytestmark = pytest.mark.services


def test_given_the_example_then_words_are_counted_once_over_two_lives(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    names = Names(topic_prefix)
    command = [sys.executable, "-m", "streams.engine.example", kafka_bootstrap]
    options = ["--group", topic_prefix, "--state", str(tmp_path / "state")]
    expected = {"the": 3, "cat": 2, "sat": 1, "on": 1, "mat": 1, "dog": 2, "did": 1, "not": 2, "a": 2, "is": 1}
    for life in (1, 2):
        subprocess.run([*command, "feed", *options], check=True, timeout=60)
        with (tmp_path / "worker.log").open("ab") as log:
            worker = subprocess.Popen([*command, "count", *options], stdout=log, stderr=log)
            try:
                wanted = {word: count * life for word, count in expected.items()}
                deadline = time.monotonic() + 60
                while show(kafka_bootstrap, names) != wanted:
                    assert time.monotonic() < deadline, (tmp_path / "worker.log").read_text()
                    time.sleep(0.2)
                worker.send_signal(signal.SIGTERM)
                assert worker.wait(30) == 0
            finally:
                worker.kill()
                worker.wait(30)

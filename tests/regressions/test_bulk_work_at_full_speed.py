"""Readers of tags had the CPU that reports needed: each was a session of its own, and Linux shares the CPU out between
sessions first (sched(7), autogroups), so the niceness they inherited counted for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from streams.upstream.files.kinds import kind_of
from streams.upstream.files.reading.reader import Reader
from tests.effects.scan.desk import make_wav


def test_what_reads_files_is_of_the_workers_session_and_out_of_reach_of_ctrl_c(tmp_path: Path) -> None:
    file = make_wav(tmp_path / "one.wav")
    kind = kind_of(os.fsencode(file.name))
    assert kind is not None
    handle = os.open(file, os.O_RDONLY)
    before = {child.pid for child in psutil.Process().children()}
    try:
        with Reader() as reader:
            assert reader.read(handle, kind, "wav").duration_ms
            [child] = [child.pid for child in psutil.Process().children() if child.pid not in before]
            assert os.getsid(child) == os.getsid(0)
            assert os.getpgid(child) == child != os.getpgid(0)
    finally:
        os.close(handle)

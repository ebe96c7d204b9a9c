"""What roles have in common."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SESSION = Path("/proc/self/autogroup")


def test_bulk_work_gives_way_and_its_children_with_it_but_not_twice_over() -> None:
    shown = "import os; print(os.nice(0))"
    script = (
        "import os, subprocess, sys; from streams.cli import role; before = os.nice(0); role.give_way(); "
        f"role.give_way(); print(before); subprocess.run([sys.executable, '-c', {shown!r}], check=True)"
    )
    done = subprocess.run([sys.executable, "-u", "-c", script], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after == max(before, 10)


def test_a_session_of_its_own_gives_way_whole_and_one_with_others_in_it_does_not() -> None:
    script = (
        "import pathlib; from streams.cli import role; role.give_way(); "
        f"session = pathlib.Path({str(SESSION)!r}); print(session.read_text() if session.exists() else 'nice 10')"
    )

    def niceness(*, own: bool) -> int:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, start_new_session=own
        )
        found = re.search(r"nice (-?\d+)", done.stdout)
        assert found is not None
        return int(found[1])

    assert niceness(own=True) == 10
    # Where there are no autogroups there is nothing to leave alone.
    assert niceness(own=False) == (_here() if SESSION.exists() else 10)


def _here() -> int:
    found = re.search(r"nice (-?\d+)", SESSION.read_text())
    assert found is not None
    return int(found[1])

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
    assert after == max(before, 19)


def test_a_session_of_its_own_gives_way_whole_and_one_with_others_in_it_does_not() -> None:
    if not SESSION.exists():
        return  # no autogroups: nothing to give, and nothing to leave alone
    script = (
        "import pathlib; from streams.cli import role; role.give_way(); "
        f"print(pathlib.Path({str(SESSION)!r}).read_text())"
    )

    def niceness(*, own: bool) -> int | None:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, start_new_session=own
        )
        return _nice_in(done.stdout)

    assert niceness(own=True) == 19
    assert niceness(own=False) == _nice_in(SESSION.read_text())


def _nice_in(shown: str) -> int | None:
    """None for a session that has no autogroup, as a container's first one."""
    found = re.search(r"nice (-?\d+)", shown)
    return None if found is None else int(found[1])

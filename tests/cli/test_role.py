"""What roles have in common."""

from __future__ import annotations

import subprocess
import sys


def test_bulk_work_gives_way_and_its_children_with_it_but_not_twice_over() -> None:
    shown = "import os; print(os.nice(0))"
    script = (
        "import os, subprocess, sys; from streams.cli import role; before = os.nice(0); role.give_way(); "
        f"role.give_way(); print(before); subprocess.run([sys.executable, '-c', {shown!r}], check=True)"
    )
    done = subprocess.run([sys.executable, "-u", "-c", script], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after == max(before, 10)

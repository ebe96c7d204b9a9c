"""``python -m streams.cli``: the same as the installed command, for places where scripts can't be run."""

from __future__ import annotations

import sys

from streams.cli.app import main

if __name__ == "__main__":
    sys.exit(main())

"""Show how what is printed for the golden payloads differs from what is expected."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from streams.ingest.hooks import FORMATS
from tests.ingest.hooks import golden


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ingest.hooks.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="take what is printed now as what is expected")
    write = parser.parse_args(arguments).write
    changes = {format: found for format in FORMATS if (found := golden.difference(format))}
    for format, lines in changes.items():
        sys.stdout.writelines(lines)
        if write:
            (golden.GOLDEN / f"{format}.expected").write_text("".join(golden.now(format).values()))
    if changes and not write:
        sys.stdout.write("Look at each line; then run this again with --write if it is what you want.\n")
    return 1 if changes and not write else 0


if __name__ == "__main__":
    sys.exit(main())

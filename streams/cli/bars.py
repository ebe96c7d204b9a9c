"""Progress of long work, for who sits at a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


@contextmanager
def bar(*columns: ProgressColumn, quiet: bool = False) -> Iterator[Progress]:
    """A bar of ``columns`` on a terminal's stderr, gone at the end; nothing anywhere else, nor when ``quiet``."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as shown:
        yield shown

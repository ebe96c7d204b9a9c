"""What only an operator may mend: workers must exit with 78, say what to do, and reset nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams.engine import EXIT_REFUSED

from .field import START_S, Field, Violation


def traces(field: Field) -> dict[str, object]:
    """Everything a silent reset would change: the group's offsets, the ends of outputs and changelogs."""
    topics = field.cluster.topics
    return {
        "committed": field.cluster.committed(),
        "ends": field.cluster.ends_of([topics.out, topics.dead, *topics.changelogs.values()]),
    }


def assert_refused(field: Field, *says: str, **settings: Any) -> None:
    """Start a worker, which must exit with 78, say all of ``says`` (``|``: or) and leave every trace as it was."""
    before, number = traces(field), field.workers[0]
    field.start_once(number, **settings)
    code = field.cluster.exit_code(number, START_S * field.patience)
    field.exits.append((number, code))
    words = field.cluster.last_words(number)
    if code != EXIT_REFUSED:
        raise Violation(f"worker {number} should refuse, and ended with {code}:\n{field.cluster.epitaph(number)}")
    for text in says:
        if not any(words_of in words for words_of in text.split("|")):
            raise Violation(f"worker {number} refused without saying {text!r}:\n{field.cluster.epitaph(number)}")
    if (after := traces(field)) != before:
        raise Violation(f"a refusal changed something: {before} -> {after}")
    field.faults["refused at the start"] += 1


def start_all(field: Field) -> None:
    """Start all workers; return when each has restored something."""
    for number in field.workers:
        field.start(number)

    def restored() -> bool:
        return all(field.cluster.said_now(number, ": restored") for number in field.workers)

    field.wait("all workers restore their units", restored, START_S)


def assert_running_refuse(field: Field, change: Callable[[], None], *says: str) -> None:
    """Start all workers and change something under them: each must exit with 78 and say one of ``says``."""
    start_all(field)
    field.expect_refusals = True
    goal = field.deaths(EXIT_REFUSED) + len(field.workers)
    change()
    field.wait("running workers refuse", lambda: field.deaths(EXIT_REFUSED) >= goal, START_S)
    for number in field.workers:
        words = field.cluster.last_words(number)
        if not any(text in words for text in says):
            raise Violation(f"worker {number} refused without one of {says}:\n{field.cluster.epitaph(number)}")
    field.faults["refused while running"] += len(field.workers)

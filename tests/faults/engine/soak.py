"""A random mix of the faults a deployment recovers from by itself, for minutes; a quarter of the time nothing.

Worker 0 is never killed or damaged: it lives through everything that happens to others, and its memory must stay flat.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from streams.engine import EXIT_CRASH, EXIT_RESTART
from streams.local.kafka_cluster import KafkaNode

from .case import KILLED, Act, Case
from .cases import state
from .cases.brokers import DOWN_S
from .field import Field, Violation
from .oracle import longest_stall

PERIOD_S = 12.0
#: A soak in which nothing moves shows nothing. The longest that heals by itself or by an operator's hand: workers find
#: what hangs (30 s), are all stopped, and the repair waits as long again.
STALL_S = 150.0
QUIET = 0.25


def _victim(field: Field) -> int:
    return field.random.choice(field.workers[1:])


def kill(field: Field) -> None:
    field.kill(_victim(field))


def kill_two(field: Field) -> None:
    for number in field.workers[1:3]:
        field.kill(number)


def freeze(field: Field) -> None:
    field.freeze(_victim(field))


def restart(field: Field) -> None:
    field.restart(_victim(field))


def add_and_remove(field: Field) -> None:
    """One more for a while."""
    extra = len(field.workers)
    field.start(extra)
    field.faults["worker added"] += 1
    time.sleep(PERIOD_S / 2)  # it works with the others meanwhile
    field.stop(extra)
    field.faults["worker removed"] += 1


def raising(field: Field) -> None:
    number = _victim(field)
    field.stop(number)
    field.start(number, agent_raises_at=field.random.randint(50, 2000))
    field.faults["agent raises"] += 1


def damaged(how: state.Damage, what: str) -> Act:
    def act(field: Field) -> None:
        number = _victim(field)
        field.stop(number)
        stores = [path for path in field.cluster.state(number).glob("[0-9]*") if path.is_dir()]
        field.faults[what] += sum(how(store, field.random) for store in stores)
        field.start(number)

    return act


def broker_stopped(field: Field) -> None:
    _broker(field, "broker stopped", lambda node: node.stop())


def broker_killed(field: Field) -> None:
    _broker(field, "broker kill -9", lambda node: node.kill())


def broker_frozen(field: Field) -> None:
    node = field.random.choice(field.brokers.nodes)
    node.freeze()
    field.faults["broker frozen"] += 1
    time.sleep(4)  # the time itself is the fault
    node.thaw()
    field.brokers.wait_ready()


def _broker(field: Field, what: str, down: Callable[[KafkaNode], None]) -> None:
    node = field.random.choice(field.brokers.nodes)
    down(node)
    field.faults[what] += 1
    time.sleep(DOWN_S)  # it is away for a while
    node.start()
    field.brokers.wait_ready()


MIX: tuple[Act, ...] = (
    kill,
    kill_two,
    freeze,
    restart,
    add_and_remove,
    raising,
    damaged(state.delete, "store deleted"),
    damaged(state.break_current, "CURRENT broken"),
    damaged(state.truncate_log, "write-ahead log cut"),
    broker_stopped,
    broker_killed,
    broker_frozen,
)


def soak_case(minutes: float) -> Case:
    """The mix as a case: every fault occurs before one occurs again."""

    def act(field: Field) -> None:
        until = time.monotonic() + minutes * 60
        waiting: list[Act] = []
        while (left := until - time.monotonic()) > 0:
            began = time.monotonic()
            field.heal()
            if field.random.random() < QUIET:
                field.faults["quiet period"] += 1
            elif left > PERIOD_S * 2:
                if not waiting:
                    waiting = list(MIX)
                    field.random.shuffle(waiting)
                waiting.pop()(field)
            time.sleep(max(0.0, min(left, PERIOD_S - (time.monotonic() - began))))  # the rhythm of the soak
        topics, partitions = field.cluster.topics, range(field.cluster.partitions)
        stall = longest_stall(field.monitor.samples, (topics.a, topics.b), partitions, time.monotonic())
        if stall > STALL_S * field.patience:
            raise Violation(f"nothing moved for {stall:.0f} s")

    return Case(
        name="soak",
        does=f"a random mix of faults for {minutes:g} min, a quarter of it quiet",
        act=act,
        codes=frozenset({KILLED, EXIT_CRASH, EXIT_RESTART}),
        keys=5_000,
        brokers=True,
        repairs=True,
        heal_s=180,
    )

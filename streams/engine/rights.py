"""Rights that the brokers do not grant: asking again changes nothing, an operator has to."""

from __future__ import annotations

from confluent_kafka import KafkaError

from .errors import Refused

#: What a worker needs, by the denial it gets.
_NEEDED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: (
        "READ on sources and changelogs, WRITE on changelogs and outputs, DESCRIBE and DESCRIBE_CONFIGS on all of them"
    ),
    KafkaError.GROUP_AUTHORIZATION_FAILED: "READ on the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "DESCRIBE on the cluster",
}


def denied(what: str, error: object, group: str) -> Refused | None:
    """Return what ends the worker when ``error`` is a denial to do ``what``, ``None`` when it is not one."""
    if not isinstance(error, KafkaError) or (needed := _NEEDED.get(error.code())) is None:
        return None
    return Refused(f"{what}: {error}. The user of group {group} needs {needed}: grant it and start again.")

"""``playhead topics``: bring Kafka's topics in line with the catalogue, or tell how they differ."""

from __future__ import annotations

import typer

from streams.cli.output import Json, emit_json, emit_lines, emit_table, finish

app = typer.Typer(
    no_args_is_help=True,
    help="Kafka's topics as the catalogue (schemas/topics.py) says. Nothing else makes topics.",
)

_WAIT = typer.Option(30.0, "--wait", min=0.0, help="Seconds to wait for a broker to answer.")


@app.command(
    epilog="Examples:  playhead topics apply  ·  PLAYHEAD_KAFKA__BOOTSTRAP=kafka-1:9092 playhead topics apply --json"
)
def apply(wait: float = _WAIT, as_json: Json = False) -> None:
    """Create missing topics, the agents' changelogs too, and alter settings that differ.

    Refuses with exit code 78, changing nothing, when a topic has another number of partitions.
    """
    from streams.agents.app import create_changelogs
    from streams.runtime import kafka
    from streams.runtime.settings import Settings

    settings = Settings.load()
    kafka.wait_for_broker(settings.kafka, timeout_s=wait)
    changes: list[kafka.Change] = kafka.apply_topics(settings.kafka)
    changes += [kafka.Created(name) for name in create_changelogs(settings)]
    if as_json:
        emit_json({"changes": [str(change) for change in changes]})
    else:
        emit_lines(changes, when_none="all topics are as they should be")


@app.command(epilog="Examples:  playhead topics check  ·  playhead topics check --json")
def check(wait: float = _WAIT, as_json: Json = False) -> None:
    """Tell how the cluster differs from the catalogue; exit code 1 when it does. Changes nothing."""
    from streams.runtime import kafka
    from streams.runtime.settings import Settings

    settings = Settings.load()
    kafka.wait_for_broker(settings.kafka, timeout_s=wait)
    problems = kafka.check_topics(settings.kafka)
    if as_json:
        emit_json({"differences": problems})
    else:
        emit_lines(problems, when_none="all topics are as they should be")
    finish(problems)


@app.command(name="list", epilog="Examples:  playhead topics list  ·  playhead topics list --json")
def list_(as_json: Json = False) -> None:
    """Show the catalogue. Needs no services."""
    from dataclasses import asdict

    from schemas.topics import FOREVER_MS, TOPICS

    if as_json:
        emit_json([asdict(topic) for topic in TOPICS])
        return
    emit_table(
        ("topic", "holds", "key", "placed by", "cleanup", "kept", "at most", "personal data"),
        [
            (
                topic.name,
                ", ".join(topic.holds) or "no events",
                topic.key,
                topic.placement,
                topic.cleanup,
                "for ever" if topic.retention_ms == FOREVER_MS else f"{topic.retention_ms // 86_400_000} days",
                f"{topic.bytes_max // 1024} KiB",
                "yes" if topic.personal_data else "no",
            )
            for topic in TOPICS
        ],
    )

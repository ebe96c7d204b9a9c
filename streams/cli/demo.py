"""``playhead demo``: a household's evening on a real Kafka and PostgreSQL, from webhook to cache invalidation; a folder
of music that is scanned, disturbed and scanned again; two media servers that are kept the same, and what is mended."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import typer

from streams.cli.household import PEOPLE, TITLES, Request, scenes
from streams.domain.identity import media_id

SETTLE_TIMEOUT_S = 30.0
_POLL_S = 0.05
_SHOW_EVERY_S = 0.5


def demo(
    data: Path | None = typer.Option(None, help="Keep everything in this folder; a temporary one when not given."),
    pause: float = typer.Option(0.25, min=0.0, help="Seconds between scenes, to watch."),
) -> None:
    """Play a household's evening through the HTTP endpoints, and show what each person sees afterwards; then scan a
    folder of music, move and break things in it, scan again, and show what kept its id and its progress. Then a film
    goes on on another media server; an update that got lost, a row that was edited and a dead letter are found and
    mended. Last, where each role's metrics are.

    Starts Kafka, PostgreSQL and every role as processes of their own, and stops them at the end. The first run
    fetches about 45 MB into the user's cache. Runs without the schema registry: schemas are pinned.

    Examples:  playhead demo  ·  playhead demo --pause 0  ·  playhead demo --data data-demo
    """
    from rich.console import Console

    from streams.cli import demo_jellyfins, demo_letters, demo_library, demo_metrics, demo_servers, running
    from streams.cli.deployment import Options
    from streams.local.unprivileged import temporary_folder

    console = Console(highlight=False)
    homes = demo_servers.Homes()
    with _folder(data, temporary_folder) as folder, demo_jellyfins.answering(*homes.both):
        options = Options(http_port=None, log_level="INFO")
        with running.deployment(folder, options, console, registry=False, before_roles=homes.connect) as playhead:
            play = Play(playhead.url, _tokens(playhead.settings))
            console.print(f"\nEverything runs; the API is at {playhead.url}. The evening begins.\n")
            act(play, console, pause)
            epilogue(play, settle(play), playhead.settings, console)
            demo_library.play(playhead.url, playhead.settings, folder, console)
            demo_servers.play(homes, playhead.url, playhead.settings, console)
            demo_letters.play(play.read, playhead.settings, console)
            demo_metrics.show(playhead.measured.ports, playhead.measured.targets, console)


@dataclass(slots=True)
class Play:
    """The senders' side of the evening: what was sent and what the door said."""

    url: str
    tokens: dict[str, str]
    sent: list[tuple[str, str]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    nothing_in_it: int = 0
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=10))

    def send(self, request: Request) -> None:
        """Send one request as its device would. Anything but an answer of the contract ends the demo."""
        token = self.tokens[request.source]
        if request.hook is None:
            url, headers = f"{self.url}/v1/playback", {"Authorization": f"Bearer {token}"}
        else:
            url, headers = f"{self.url}/hooks/{request.hook}/{token}", {}
        answer = self.client.post(url, content=request.body, headers={**headers, "Content-Type": request.content_type})
        if answer.status_code not in (200, 202, 422):
            raise RuntimeError(f"the door answered {answer.status_code}: {answer.text[:500]}")
        body = answer.json()
        self.sent += [(request.source, event_id) for event_id in body.get("event_ids", [])]
        self.refused.update(rejection["reason"] for rejection in body.get("rejected", []))
        self.nothing_in_it += not body.get("event_ids") and not body.get("rejected")

    def read(self, source: str, path: str) -> Any:
        """GET with the source's token; None for 404."""
        answer = self.client.get(f"{self.url}{path}", headers={"Authorization": f"Bearer {self.tokens[source]}"})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        answer.raise_for_status()
        return answer.json()


def act(play: Play, console: Any, pause: float) -> None:
    """Play all scenes, the household's state in view while they run."""
    from rich.live import Live

    evening = list(scenes(int(time.time() * 1000)))
    for number, scene in enumerate(evening, 1):
        console.print(f"[bold]{number}[/bold]  {scene.says}")
        with Live(_progress_table(play), console=console, transient=True, refresh_per_second=8) as live:
            shown = time.monotonic()
            for request in scene.requests:
                play.send(request)
                if time.monotonic() - shown > _SHOW_EVERY_S:
                    live.update(_progress_table(play))
                    shown = time.monotonic()
            time.sleep(pause)
            live.update(_progress_table(play))


def settle(play: Play) -> list[dict[str, Any]]:
    """What became of every accepted report, once each; returns when all have their decision in the read model."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    found = []
    for source, event_id in dict.fromkeys(play.sent):
        while (explained := play.read(source, f"/v1/events/{event_id}")) is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"no decision for report {event_id} after {SETTLE_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)
        found.append(explained)
    return found


def epilogue(play: Play, explained: list[dict[str, Any]], settings: Any, console: Any) -> None:
    """What each person sees, what was suppressed and why, which caches were told."""
    from rich.table import Table

    console.print()
    console.print(_progress_table(play, title="What everyone sees now"))
    fates: Counter[tuple[str, str]] = Counter()
    for event in explained:
        fates[event["verdict"], event["reason"] or ""] += 1
        if event["deliveries"] > 1:
            fates["duplicate", "seen before"] += event["deliveries"] - 1
    table = Table(title="What became of the reports", title_justify="left")
    for column in ("verdict", "reason", "decisions"):
        table.add_column(column)
    for (verdict, reason), count in sorted(fates.items()):
        table.add_row(verdict, reason, str(count))
    for reason, count in sorted(play.refused.items()):
        table.add_row("refused at the door", reason, str(count))
    if play.nothing_in_it:
        table.add_row("no playback news", "", str(play.nothing_in_it))
    console.print(table)
    keys = invalidations(settings)
    table = Table(title=f"Cache invalidations sent: {sum(keys.values())}", title_justify="left")
    for column in ("kind of key", "keys", "invalidations"):
        table.add_column(column)
    kinds = sorted({key.partition(":")[0] for key in keys})
    for kind in kinds:
        of_kind = {key: count for key, count in keys.items() if key.startswith(f"{kind}:")}
        table.add_row(kind, str(len(of_kind)), str(sum(of_kind.values())))
    console.print(table)


def invalidations(settings: Any) -> Counter[str]:
    """How often each cache key was invalidated: cache.invalidated, read from its beginning to its end."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

    from schemas.topics import CACHE_INVALIDATED

    consumer = Consumer(
        {
            **settings.kafka.client(),
            "group.id": "demo",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    partitions = range(CACHE_INVALIDATED.partitions)
    consumer.assign([TopicPartition(CACHE_INVALIDATED.name, p, OFFSET_BEGINNING) for p in partitions])
    found: Counter[str] = Counter()
    ended: set[int | None] = set()
    while len(ended) < len(partitions):
        for message in consumer.consume(500, 0.1):
            error, key = message.error(), message.key()
            if error is None and key is not None:
                found[key.decode()] += 1
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    consumer.close()
    return found


def _progress_table(play: Play, title: str | None = None) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for column in ("who", "what", "position", "resumes at", "plays", "device", ""):
        table.add_column(column)
    titles = {media_id(source, upstream): title for source in play.tokens for upstream, title in TITLES.items()}
    for person, (source, user) in PEOPLE.items():
        for row in (play.read(source, f"/v1/users/{user}/progress") or {"items": []})["items"]:
            remark = "another device was further" if row["conflict"] else "a device waits" if row["pending"] else ""
            table.add_row(
                person,
                titles.get(row["media"], row["media"]),
                _clock(row["position_ms"]),
                _clock(row["resume_position_ms"]),
                str(row["play_count"]),
                row["device_id"] or "",
                remark,
            )
    return table


def _clock(ms: int | None) -> str:
    if ms is None:
        return "—"
    seconds = ms // 1000
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _tokens(settings: Any) -> dict[str, str]:
    from streams.cli.admin import door_connection
    from streams.runtime.tokens import create_source, create_token

    with door_connection(settings) as connection:
        create_source(connection, "home", "native", "The household's own app")
        create_source(connection, "jelly", "jellyfin", "Jellyfin in the cupboard")
        return {
            source: create_token(connection, source, ["report", "read"], None, "demo") for source in ("home", "jelly")
        }


@contextmanager
def _folder(chosen: Path | None, temporary: Any) -> Iterator[Path]:
    if chosen is not None:
        yield chosen.expanduser().absolute()
        return
    import shutil

    made: Path = temporary("playhead-demo-")
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)

"""``playhead dlq``: records nobody could process, and what stopped because there were too many of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from streams.cli.choosing import choose, narrow, place_of, progress, statuses_of, when
from streams.cli.output import Json, emit_json, emit_table

if TYPE_CHECKING:
    from projections.dlq.desk import Desk, Letter
    from streams.runtime.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Dead letters: records nobody could process, kept with their bytes.")

_LETTERS = typer.Argument(None, metavar="LETTER", help="Their ids, or beginnings of them.")
_TOPIC = typer.Option(None, help="Only records of this topic.")
_CAUSE = typer.Option(None, help="Only this class of causes, as 'dlq list --by cause' shows them.")
_CONSUMER = typer.Option(None, help="Only what this one gave up: agent.…, projection.…, work.…")
_SOURCE = typer.Option(None, help="Only of this source.")
_OLDER = typer.Option(None, help="Only letters that are older than so long: 90s, 15m, 6h, 2d.")
_NEWER = typer.Option(None, help="Only letters that are newer than so long.")
_LIMIT = typer.Option(50, min=1, max=10_000, help="So many at most, the newest.")
_ALL = typer.Option(False, "--all", help="Needed when nothing else says which letters are meant.")
_DRY = typer.Option(False, "--dry-run", help="Say what would be done, change nothing.")
_REASON = typer.Option("", help="Why; kept in the audit.")
_BY = typer.Option("", help="Who; by default the name of the login.")


@app.command(name="list", epilog="Examples:  playhead dlq list --by cause  ·  playhead dlq list --cause rejected")
def list_(
    topic: str | None = _TOPIC,
    cause: str | None = _CAUSE,
    consumer: str | None = _CONSUMER,
    source: str | None = _SOURCE,
    older: str | None = _OLDER,
    newer: str | None = _NEWER,
    status: str = typer.Option("open,redriving", help="open, parked, redriving, redriven, discarded; commas; or all."),
    by: str = typer.Option("", metavar="cause", help="Show groups of letters alike, not each."),
    limit: int = _LIMIT,
    as_json: Json = False,
) -> None:
    """Show letters, newest first, or groups of them. Exit code 0 also when there are none."""
    from dataclasses import asdict

    if by not in ("", "cause"):
        raise typer.BadParameter("letters are grouped by cause", param_hint="--by")
    chosen = choose([], topic, cause, consumer, source, older, newer, limit, statuses_of(status))
    with _desk() as desk:
        unlisted = desk.unlisted()
        if by:
            groups = desk.groups(chosen)
            if as_json:
                emit_json({"groups": [asdict(group) for group in groups], "unlisted": unlisted})
                return
            emit_table(
                ("letters", "consumer", "topic", "cause", "status", "first", "last", "newest"),
                [
                    (g.count, g.consumer, g.topic, g.cause_class, g.status, when(g.first_at), when(g.last_at),
                     g.example[:12])
                    for g in groups
                ],
            )  # fmt: skip
        else:
            letters = desk.letters(chosen)
            if as_json:
                emit_json({"letters": [asdict(letter) for letter in letters], "unlisted": unlisted})
                return
            emit_table(
                ("letter", "logged", "consumer", "place", "source", "cause", "status", "error"),
                [
                    (one.letter_id[:12], when(one.logged_at), one.consumer, place_of(one), one.source_id,
                     one.cause_class, one.status, one.last_error or one.error_text)
                    for one in letters
                ],
            )  # fmt: skip
    if unlisted:
        typer.echo(f"{unlisted} more were pushed out of the list by their own flood, or expired; the topic has them.")


@app.command(epilog="Examples:  playhead dlq show 3f1c0d5e8a2b  ·  playhead dlq show 3f1c0d5e8a2b --payload")
def show(
    letter: str = typer.Argument(help="Its id, or the beginning of it."),
    payload: bool = typer.Option(False, "--payload", help="Also the record's bytes: they can hold what people do."),
    as_json: Json = False,
) -> None:
    """Show all that is known of one letter, and what redriving it would be."""
    from dataclasses import asdict

    from projections.dlq.ways import said

    settings = _settings()
    with _desk(settings) as desk:
        [found] = desk.letters(choose([letter], statuses=()))
        redriver = _redriver(settings, desk)
        document: dict[str, Any] = asdict(found) | {"redrive": said(redriver.ways([found])[found.letter_id])}
        if payload:
            document["payload"] = redriver.payload(found)
    if as_json:
        emit_json(document)
    else:
        emit_table(("", ""), [(name, value) for name, value in document.items() if value is not None])


@app.command(
    epilog="Examples:  playhead dlq redrive --cause wrong_partition --dry-run  ·  playhead dlq redrive 3f1c0d5e"
)
def redrive(
    letters: list[str] = _LETTERS,
    topic: str | None = _TOPIC,
    cause: str | None = _CAUSE,
    consumer: str | None = _CONSUMER,
    source: str | None = _SOURCE,
    older: str | None = _OLDER,
    newer: str | None = _NEWER,
    limit: int = _LIMIT,
    everything: bool = _ALL,
    again: bool = typer.Option(False, "--again", help="Also what was redriven before."),
    dry_run: bool = _DRY,
    reason: str = _REASON,
    by: str = _BY,
    as_json: Json = False,
) -> None:
    """Have open letters processed once more, after what was wrong is mended.

    What an agent gave up is appended to its topic again; what a projection gave up is read again at its own place; what
    a worker gave up is asked for again. Break it off when you like: the same command goes on, and twice is once. What
    can't be processed this time either is a letter again. Exit code 1 when anything was refused or failed.
    """
    from projections.dlq.desk import Status
    from projections.dlq.ways import said
    from streams.cli.output import finish

    statuses = (Status.OPEN, Status.REDRIVING, *((Status.REDRIVEN,) if again else ()))
    chosen = choose(letters, topic, cause, consumer, source, older, newer, limit, statuses)
    narrow(chosen, everything)
    settings = _settings()
    with _desk(settings, by) as desk:
        redriver = _redriver(settings, desk)
        if dry_run:
            meant = desk.letters(chosen)
            ways = redriver.ways(meant)
            _tell(meant, {one: said(way) for one, way in ways.items()}, "would be", as_json, dry_run=True)
            return
        with progress(as_json) as moved:
            outcome = redriver.redrive(chosen, reason, again=again, moved=moved)
    wrong = outcome.refused | outcome.failed
    if as_json:
        emit_json({"done": outcome.done, "refused": outcome.refused, "failed": outcome.failed})
    else:
        for title, found in (("redriven", outcome.done), ("refused", outcome.refused), ("failed", outcome.failed)):
            for one, how in sorted(found.items()):
                typer.echo(f"{one[:12]} {title}: {how}")
        typer.echo(f"{len(outcome.done)} redriven, {len(outcome.refused)} refused, {len(outcome.failed)} failed again")
    finish(wrong)


@app.command(epilog="Example:  playhead dlq audit --limit 20")
def audit(limit: int = _LIMIT, as_json: Json = False) -> None:
    """Show who did what with which letters, when and why; newest first."""
    with _desk() as desk:
        lines = desk.audited(limit)
    if as_json:
        emit_json(lines)
        return
    emit_table(
        ("when", "who", "what", "letters", "why", "chosen by"),
        [
            (f"{line['at']:%Y-%m-%d %H:%M:%S}", line["actor"], line["action"], len(line["letters"]), line["reason"],
             ", ".join(f"{name}={value}" for name, value in line["chosen"].items()))
            for line in lines
        ],
    )  # fmt: skip


@app.command(epilog="Example:  playhead dlq resume projection.playback")
def resume(
    consumer: str = typer.Argument("projection.playback", help="Who stopped, as its refusal says."),
    as_json: Json = False,
) -> None:
    """Close the breaker that a flood of dead letters opened; exit code 1 when it was not open.

    First find out what sent the flood: its records become dead letters, and their neighbours are processed, when
    the consumer is started again. An agent keeps no breaker: it stops at the same batch each time, until it is started
    once with 'playhead agents run --through-flood'.
    """
    from projections.flood import resume as close_breaker
    from streams.cli.admin import answering
    from streams.runtime.errors import EXIT_DIFFERENCES

    if consumer.startswith("agent."):
        name = consumer.removeprefix("agent.")
        raise typer.BadParameter(f"an agent is let through by 'playhead agents run {name} --through-flood'")
    settings = _settings()
    with answering(settings):
        done = close_breaker(settings.postgres.conninfo("projector"), consumer)
    if as_json:
        emit_json({"consumer": consumer, "resumed": done})
    else:
        typer.echo(f"{consumer}: resumed; start it again" if done else f"{consumer}: its breaker is not open")
    if not done:
        raise typer.Exit(EXIT_DIFFERENCES)


def _marking(action: str, to: str, of: tuple[str, ...], example: str, text: str) -> None:
    """The command ``action``, which marks letters whose status is one ``of``."""

    def command(
        letters: list[str] = _LETTERS,
        topic: str | None = _TOPIC,
        cause: str | None = _CAUSE,
        consumer: str | None = _CONSUMER,
        source: str | None = _SOURCE,
        older: str | None = _OLDER,
        newer: str | None = _NEWER,
        limit: int = _LIMIT,
        everything: bool = _ALL,
        dry_run: bool = _DRY,
        reason: str = _REASON,
        by: str = _BY,
        as_json: Json = False,
    ) -> None:
        from projections.dlq.desk import Status

        if action == "discard" and not reason.strip():
            raise typer.BadParameter("say why", param_hint="--reason")
        chosen = choose(letters, topic, cause, consumer, source, older, newer, limit, of)
        narrow(chosen, everything)
        with _desk(by=by) as desk:
            meant = desk.letters(chosen)
            done = [letter.letter_id for letter in meant]
            if not dry_run:
                with desk.transaction() as tx:
                    done = desk.mark(
                        tx, action, done, Status(to), of=[Status(one) for one in of], reason=reason, chosen=chosen
                    )
        _tell(meant, dict.fromkeys(done, to), "would be" if dry_run else "is", as_json, dry_run=dry_run)

    command.__doc__ = text
    app.command(name=action, epilog=example)(command)


def _tell(meant: list[Letter], how: dict[str, str], verb: str, as_json: bool, *, dry_run: bool) -> None:
    if as_json:
        emit_json({"letters": how, "dry_run": dry_run})
        return
    for letter in meant:
        if letter.letter_id in how:
            typer.echo(f"{letter.letter_id[:12]} {place_of(letter)} {verb} {how[letter.letter_id]}")
    typer.echo(f"{len(how)} letters" + ("; nothing was changed" if dry_run else ""))


def _settings() -> Settings:
    from streams.runtime.settings import Settings

    return Settings.load()


def _desk(settings: Settings | None = None, by: str = "") -> Desk:
    import getpass

    from projections.dlq.desk import Desk

    settings = settings or _settings()
    return Desk(settings.postgres.conninfo("projector"), by or getpass.getuser())


def _redriver(settings: Settings, desk: Desk) -> Any:
    from projections.dlq.redrive import Redriver
    from projections.entry import PROJECTIONS
    from streams.runtime import failpoints
    from streams.runtime.clock import SystemClock
    from streams.runtime.contract import Contract

    return Redriver(
        desk,
        settings.kafka,
        Contract.of(settings),
        SystemClock(),
        {name: made() for name, made in PROJECTIONS.items()},
        failpoint=failpoints.armed(settings.failpoints),
    )


_marking(
    "discard",
    "discarded",
    ("open", "parked"),
    'Example:  playhead dlq discard --cause too_large --reason "a test of ours"',
    "Say that letters are of no use. Needs a reason. Their bytes stay in the topic; 'dlq release' takes it back.",
)
_marking(
    "park",
    "parked",
    ("open",),
    'Example:  playhead dlq park --consumer work.scan --reason "the shelf is being moved"',
    "Set open letters aside: no redrive takes them until 'dlq release'.",
)
_marking(
    "release",
    "open",
    ("parked", "discarded"),
    "Example:  playhead dlq release --consumer work.scan",
    "Make letters that were parked or discarded open again.",
)

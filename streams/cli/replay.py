"""`playhead replay FILE…`: captured payloads through the normal door, in order, once each.

How far it came stands in a file beside the first capture (FILE.replay), written each second and at the end, however
the end comes. A payload sent again after a kill -9 changes nothing: its reports have the same event ids.

Exit codes: 0 all taken · 1 something was refused · 2 wrong usage · 69 the door is away, go on later by the same
command · 78 the token is missing or may not do this · 130 interrupted, go on the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import httpx
import typer

from streams.cli.bars import bar
from streams.cli.captures import STATE_SUFFIX, BadCapture, Call, Payload, call_of, fingerprint, read, summary
from streams.cli.output import Json, emit_json
from streams.ingest.hooks import FORMATS
from streams.runtime.errors import EXIT_DIFFERENCES, ConfigurationError, Unavailable
from streams.runtime.logs import escape

TOKEN_VARIABLE: Final = "PLAYHEAD_TOKEN"  # noqa: S105 - the name of one
SAVE_EVERY_S: Final = 1.0
TIMEOUT_S: Final = 30.0
REFUSALS_SHOWN: Final = 20
_FIRST_WAIT_S: Final = 0.5
_LONGEST_WAIT_S: Final = 30.0


@dataclass(slots=True)
class Progress:
    """How far a run came. `run` is the fingerprint of its payloads, `door` where they went."""

    run: str
    door: str
    total: int
    done: int = 0
    accepted: int = 0
    ignored: int = 0
    refused: int = 0
    refusals: list[dict[str, Any]] = field(default_factory=list)

    def refuse(self, place: str, index: int | None, reason: str, detail: str) -> None:
        self.refused += 1
        if len(self.refusals) < REFUSALS_SHOWN:
            self.refusals.append({"place": place, "index": index, "reason": reason, "detail": detail})


class StateFile:
    """A run's progress on disk. Written whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._saved = 0.0

    def load(self, run: str, door: str, total: int) -> Progress:
        """Where the run stopped; the beginning when there is none. Raises ConfigurationError for another run's."""
        try:
            kept = Progress(**json.loads(self._path.read_text()))
        except FileNotFoundError:
            return Progress(run, door, total)
        except (OSError, ValueError, TypeError):
            raise ConfigurationError(f"{self._path} can't be read: remove it, or begin again with --restart") from None
        if (kept.run, kept.door) != (run, door):
            what = "other payloads" if kept.run != run else f"another door, {kept.door}"
            raise ConfigurationError(f"{self._path} is of a run with {what}: begin again with --restart")
        return kept

    def save(self, progress: Progress, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._saved < SAVE_EVERY_S:
            return
        beside = self._path.with_name(self._path.name + ".part")
        with beside.open("w") as file:
            json.dump(asdict(progress), file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
        self._saved = time.monotonic()


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate`: payloads a second, 0 for no limit. `patience_s`: how long a door that is away is waited for."""

    rate: float = 0
    patience_s: float = 60


async def replay(
    payloads: Sequence[Payload],
    client: httpx.AsyncClient,
    token: str,
    progress: Progress,
    *,
    pace: Pace,
    moved: Callable[[Progress], None],
) -> None:
    """Send what is left, in order; `moved` is called after each answer.

    Raises Unavailable when the door stays away, ConfigurationError when it does not take the token.
    """
    began, first = time.monotonic(), progress.done
    for index in range(progress.done, len(payloads)):
        if pace.rate:
            ahead = (index - first) / pace.rate - (time.monotonic() - began)
            await asyncio.sleep(max(0.0, ahead))
        payload = payloads[index]
        call = call_of(payload, run=progress.run, index=index, now_ms=time.time_ns() // 1_000_000)
        answer = await _answered(client, call, payload, token, pace.patience_s)
        _count(progress, payload, call, answer)
        progress.done = index + 1
        moved(progress)


async def _answered(
    client: httpx.AsyncClient, call: Call, payload: Payload, token: str, patience_s: float
) -> httpx.Response:
    """The door's answer to a call, 429 and 503 waited out as it asks."""
    scheme = "Token" if payload.format == "listenbrainz" else "Bearer"
    headers = {"Authorization": f"{scheme} {token}", "Content-Type": call.content_type}
    if call.key is not None:
        headers["Idempotency-Key"] = call.key
    until, wait_s = time.monotonic() + patience_s, _FIRST_WAIT_S
    while True:
        asked: str | None = None
        try:
            answer = await client.post(call.path, content=call.body, headers=headers)
        except httpx.HTTPError as exc:
            wrong = f"does not answer ({type(exc).__name__})"
        else:
            if answer.status_code in (401, 403):
                raise ConfigurationError(
                    f"the door answers {answer.status_code}: the token must be valid and have the scope report "
                    f"('playhead token create --source …'); give it in {TOKEN_VARIABLE} or with --token-file"
                )
            if answer.status_code != 429 and answer.status_code < 500:
                return answer
            wrong, asked = f"answers {answer.status_code}", answer.headers.get("Retry-After")
        pause = float(asked) if asked is not None and asked.isdigit() else wait_s
        if time.monotonic() + pause > until:
            raise Unavailable(f"the door {wrong}; what was sent is safe, the same command goes on at {payload.place}")
        await asyncio.sleep(pause)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


def _count(progress: Progress, payload: Payload, call: Call, answer: httpx.Response) -> None:
    try:
        document = answer.json()
    except ValueError:
        document = None
    told = document if isinstance(document, dict) else {}
    rejected = told.get("rejected") or []
    if answer.is_success:
        progress.accepted += told.get("accepted", call.reports)
        progress.ignored += len(told.get("ignored") or []) + told.get("observations_ignored", 0)
    elif not rejected:
        title = str(told.get("detail") or told.get("title") or "no reason given")
        progress.refuse(payload.place, None, f"http_{answer.status_code}", title)
    for one in rejected:
        progress.refuse(payload.place, one.get("index"), str(one.get("reason")), str(one.get("detail")))


def command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Captures, bodies, or folders of them.")],
    format: Annotated[str, typer.Option(help=f"Of bodies that are no capture: {', '.join(FORMATS)}.")] = "",
    to: Annotated[str, typer.Option(help="The door; by default where serve listens here.")] = "",
    token_file: Annotated[Path | None, typer.Option(help=f"File with the token; else {TOKEN_VARIABLE} is it.")] = None,
    rate: Annotated[float, typer.Option(min=0, help="Payloads a second; 0: as fast as it goes.")] = 0,
    patience_s: Annotated[float, typer.Option(min=0, help="How long to wait for a door that is away.")] = 60,
    state: Annotated[Path | None, typer.Option(help="File that tells how far it came; FILE.replay by default.")] = None,
    restart: Annotated[bool, typer.Option("--restart", help="From the beginning.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Send nothing; show what would be sent.")] = False,
    as_json: Json = False,
) -> None:
    """Send captured payloads of media servers and players through the door again.

    A capture is JSON lines: {"format": "jellyfin", "content_type": "text/plain", "body": "…"}; body_base64 for bytes.
    Any other file is one request body of the --format given; a folder is all files in it, by name.

    Interrupt it when you like: the same command goes on where it stopped, and nothing counts twice. Webhooks count
    from when they arrive, so replayed ones happen now, in their order; reports, sessions and listens keep their times.
    """
    if format and format not in FORMATS:
        raise typer.BadParameter(f"the formats are {', '.join(FORMATS)}", param_hint="--format")
    try:
        payloads = read(files, format or None)
    except BadCapture as bad:
        raise typer.BadParameter(escape(str(bad)), param_hint="FILE") from None
    except OSError as exc:
        raise typer.BadParameter(f"{exc.filename}: {exc.strerror}", param_hint="FILE") from None
    if dry_run:
        _show(payloads, as_json=as_json)
        return
    door = (to or door_here()).rstrip("/")
    if not door.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{door!r} is no address; try http://127.0.0.1:8420", param_hint="--to")
    token = token_of(token_file)
    run = fingerprint(payloads)
    path = state or files[0].with_name(files[0].name + STATE_SUFFIX)
    if restart:
        path.unlink(missing_ok=True)
    file = StateFile(path)
    progress = file.load(run, door, len(payloads))
    if progress.done == progress.total and not as_json:
        typer.echo(f"all of it was sent before, says {path}; --restart sends it again")
    try:
        asyncio.run(_run(payloads, door, token, progress, Pace(rate, patience_s), file))
    finally:
        if payloads:
            file.save(progress, now=True)
    _tell(progress, as_json=as_json)
    if progress.refused:
        raise typer.Exit(EXIT_DIFFERENCES)


async def _run(
    payloads: Sequence[Payload], door: str, token: str, progress: Progress, pace: Pace, file: StateFile
) -> None:
    async with httpx.AsyncClient(base_url=door, timeout=TIMEOUT_S, follow_redirects=False) as client:
        with _bar(progress) as shown:

            def moved(now: Progress) -> None:
                file.save(now)
                shown(now)

            await replay(payloads, client, token, progress, pace=pace, moved=moved)


@contextlib.contextmanager
def _bar(progress: Progress) -> Iterator[Callable[[Progress], None]]:
    """A progress bar on a terminal's stderr; nothing anywhere else."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[refused]} refused"), TimeRemainingColumn())
    with bar(*columns) as shown:
        task = shown.add_task("", total=progress.total, completed=progress.done, refused=progress.refused)
        yield lambda now: shown.update(task, completed=now.done, refused=now.refused)


def _show(payloads: Sequence[Payload], *, as_json: bool) -> None:
    calls = [call_of(payload, run="dry", index=index, now_ms=0) for index, payload in enumerate(payloads)]
    if as_json:
        emit_json(
            [
                {"place": payload.place, "format": payload.format, "path": call.path, "reads": summary(call.results)}
                for payload, call in zip(payloads, calls, strict=True)
            ]
        )
        return
    for payload, call in zip(payloads, calls, strict=True):
        typer.echo(escape(f"{payload.place}  POST {call.path}  {summary(call.results)}"))
    typer.echo(f"{len(calls)} payloads with {sum(call.reports for call in calls)} reports; nothing was sent")


def _tell(progress: Progress, *, as_json: bool) -> None:
    if as_json:
        emit_json({name: value for name, value in asdict(progress).items() if name != "run"})
        return
    for one in progress.refusals:
        where = one["place"] if one["index"] is None else f"{one['place']} report {one['index']}"
        typer.echo(escape(f"{where}: {one['reason']}: {one['detail']}"))
    if progress.refused > len(progress.refusals):
        typer.echo(f"… and {progress.refused - len(progress.refusals)} more")
    typer.echo(
        f"{progress.done} of {progress.total} payloads sent: {progress.accepted} reports accepted, "
        f"{progress.ignored} events ignored, {progress.refused} refused"
    )


def door_here() -> str:
    from streams.runtime.settings import Settings

    http = Settings.load().http
    return f"http://{http.host}:{http.port}"


def token_of(file: Path | None) -> str:
    try:
        token = os.environ.get(TOKEN_VARIABLE, "") if file is None else file.read_text()
    except OSError as exc:
        raise ConfigurationError(f"--token-file {file}: {exc.strerror}") from None
    if not token.strip() or not token.strip().isascii():
        raise ConfigurationError(
            f"a token is needed, in {TOKEN_VARIABLE} or a file named by --token-file; "
            "'playhead token create --source …' makes one"
        )
    return token.strip()


app = typer.Typer(add_completion=False)
app.command(
    "replay",
    epilog="Examples:  playhead replay evening.jsonl  ·  playhead replay --format plex hooks/ --dry-run  ·  "
    "playhead replay --to https://playhead.example --token-file token.txt --rate 50 evening.jsonl",
)(command)

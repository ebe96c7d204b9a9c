"""What the cache would answer, against the rows.

An entry names every key it depends on, each with the version it was read at. It is shown while no floor lies above one
of these. So of an entry that would be shown each key's row must not be newer, unless its invalidation is under way; no
version in it may be one the rows have never had; and what it answers must be what is read now at the same version.

Only what is still wrong after ``PATIENCE_S``, in which every invalidation arrives, is a finding.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from valkey import Valkey
from valkey.exceptions import ValkeyError

from projections.api.read_models import CONTINUE_PAGE, page_of
from projections.base import Connection
from projections.rebuild.running import connect
from projections.reconcile.findings import Cause, Findings, Flush, Invalidate, Scope
from streams.runtime.cache import TIMEOUT_S, Stamp
from streams.runtime.cache_scripts import STATE_KEY
from streams.runtime.settings import Settings

ENTRIES_MAX: Final = 100_000
PATIENCE_S: Final = 5.0
LOOK_EVERY_S: Final = 0.25
Told: TypeAlias = Callable[[int], None]

# The newest version of what each kind of key stands for, and its home partition.
_NEWEST: Final[Mapping[str, str]] = {
    "progress": "SELECT log_epoch, partition, version FROM model.playback_progress"
    " WHERE user_ref = split_part(%(name)s, ':', 1) AND media_id = split_part(%(name)s, ':', 2)",
    "continue": "SELECT log_epoch, partition, version FROM model.user_versions WHERE user_ref = %(name)s",
    "item": "SELECT log_epoch, partition, version FROM model.media_items WHERE media_id = %(name)s",
    "collection": "SELECT log_epoch, partition, version FROM model.collections WHERE collection_id = %(name)s",
}
# How far the model has read where a person's keys are at home.
_APPLIED: Final = """
SELECT o.log_epoch, o.next_offset - 1 FROM model.offsets o JOIN model.user_versions v USING (partition)
WHERE o.projection = 'playback' AND v.user_ref = %(user)s"""
_PROGRESS: Final = "SELECT * FROM api.progress_of(%(user)s, %(media)s) ORDER BY place LIMIT 1"


@dataclass(frozen=True, slots=True)
class _Entry:
    """One kept answer. ``deps``: the key it is kept under first."""

    key: str
    variant: str
    deps: tuple[tuple[str, Stamp], ...]
    value: Any


@dataclass(frozen=True, slots=True)
class _Wrong:
    cause: Cause
    what: str
    repair: Invalidate | Flush


def check_cache(
    settings: Settings, url: str, findings: Findings, *, stop: threading.Event, told: Told = lambda _: None
) -> None:
    """Look at every entry of the open cache once. A cache that is closed or away shows nothing, and is passed over."""
    client = Valkey.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
    try:
        opened = _opened(client)
        if opened is None:
            findings.pass_over(Scope.CACHE, "cache", "it is closed: nothing is answered from it")
            return
        suspects: list[tuple[str, str]] = []
        looked = 0
        for entry in _entries(client, opened):
            looked += 1
            told(looked)
            if _wrong(settings, client, entry) is not None:
                suspects.append((entry.key, entry.variant))
            if looked >= ENTRIES_MAX or stop.is_set():
                findings.pass_over(Scope.CACHE, "cache", f"only {looked} entries were looked at")
                break
        findings.looked(Scope.CACHE, looked)
        for wrong in _still_wrong(settings, client, suspects, stop):
            findings.add(wrong.cause, wrong.what, wrong.repair)
    except ValkeyError as exc:
        findings.pass_over(Scope.CACHE, "cache", f"it does not answer: {type(exc).__name__}")
    finally:
        client.connection_pool.disconnect()


def _still_wrong(
    settings: Settings, client: Valkey, suspects: list[tuple[str, str]], stop: threading.Event
) -> list[_Wrong]:
    left, found = suspects, list[_Wrong]()
    for _ in range(int(PATIENCE_S / LOOK_EVERY_S)):
        if not left or stop.wait(LOOK_EVERY_S):
            return []
        found, again = [], []
        opened = _opened(client)
        for key, variant in left:
            entry = None if opened is None else _entry(client, opened, key, variant)
            wrong = None if entry is None else _wrong(settings, client, entry)
            if wrong is not None:
                found.append(wrong)
                again.append((key, variant))
        left = again
    return found


def _wrong(settings: Settings, client: Valkey, entry: _Entry) -> _Wrong | None:
    """What is wrong with an entry that would be shown now."""
    if _forbidden(client, entry):
        return None
    with connect(settings) as tx:
        [(model_epoch,)] = tx.execute(b"SELECT model_epoch FROM model.epoch").fetchall()
        for key, stamp in entry.deps:
            newest = _newest(tx, key)
            if newest is None:
                continue
            log_epoch, partition, version = newest
            now = Stamp(int(model_epoch), log_epoch, version)
            if now > stamp:
                told = Invalidate(key, log_epoch, partition, version)
                return _Wrong(Cause.INVALIDATION_LOST, f"{key}: {stamp} is shown, {now} is there", told)
        own, stamp = entry.deps[0]
        user = own.partition(":")[2].partition(":")[0]
        applied = tx.execute(_APPLIED.encode(), {"user": user}).fetchone() if _is_of_a_person(own) else None
        if applied is not None and stamp > Stamp(int(model_epoch), applied[0], applied[1]):
            return _Wrong(Cause.CACHE_AHEAD, f"{own}: {stamp} is shown, {applied[0]}.{applied[1]} was read", Flush())
        if _is_of_a_person(own) and _answer(tx, entry) != entry.value:
            return _Wrong(Cause.CACHE_STALE, f"{own}: another answer than the rows of {stamp}", Flush())
    return None


def _is_of_a_person(key: str) -> bool:
    return key.startswith(("progress:", "continue:"))


def _answer(tx: Connection, entry: _Entry) -> Any:
    """What a reader would answer now, as JSON types."""
    kind, _, name = entry.key.partition(":")

    def rows(query: str, **values: Any) -> list[dict[str, Any]]:
        cursor = tx.execute(query.encode(), values)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    found: Any
    if kind == "progress":
        user, _, media = name.partition(":")
        several = [media, *filter(None, entry.variant.split(","))]
        found = next(iter(rows(_PROGRESS, user=user, media=several)), None)
    else:
        page = page_of(rows(CONTINUE_PAGE, user=name, time=None, after=None, limit=int(entry.variant)))
        version = page.version
        parts = version and [version.model_epoch, version.log_epoch, version.partition, version.offset]
        found = {"rows": list(page.rows), "version": parts}
    return json.loads(json.dumps(found))


def _newest(tx: Connection, key: str) -> tuple[int, int, int] | None:
    kind, _, name = key.partition(":")
    query = _NEWEST.get(kind)
    row = None if query is None else tx.execute(query.encode(), {"name": name}).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def _opened(client: Valkey) -> tuple[str, int] | None:
    """Generation and bucket of the open cache."""
    state: Any = client.get(STATE_KEY)
    if state is None:
        return None
    _, generation, bucket = state.decode().split()
    return generation, int(bucket)


def _entries(client: Valkey, opened: tuple[str, int]) -> Iterator[_Entry]:
    prefix = f"playhead:entry:{opened[0]}:"
    for name in client.scan_iter(f"{prefix}*", count=500):
        yield from _read(client, prefix, name.decode().removeprefix(prefix))


def _entry(client: Valkey, opened: tuple[str, int], key: str, variant: str) -> _Entry | None:
    found = _read(client, f"playhead:entry:{opened[0]}:", key)
    return next((one for one in found if one.variant == variant), None)


def _read(client: Valkey, prefix: str, key: str) -> Iterator[_Entry]:
    fields: Any = client.hgetall(prefix + key)
    for name, deps in fields.items():
        kind, _, variant = name.decode().partition(":")
        value = fields.get(f"value:{variant}".encode())
        if kind == "deps" and value is not None:
            parts = tuple((one, _stamp(text)) for one, text in json.loads(deps))
            yield _Entry(key, variant, parts, json.loads(value))


def _forbidden(client: Valkey, entry: _Entry) -> bool:
    """Whether a floor lies above what it was read at: then it is never shown."""
    opened = _opened(client)
    if opened is None:
        return True
    generation, bucket = opened
    keys = [key for key, _ in entry.deps]
    for one in (bucket - 1, bucket):
        floors: Any = client.hmget(f"playhead:floors:{generation}:{one}", keys)
        for (_, stamp), floor in zip(entry.deps, floors, strict=True):
            if floor is not None and stamp < _stamp(floor.decode()):
                return True
    return False


def _stamp(text: str) -> Stamp:
    model_epoch, log_epoch, offset = text.split(".")
    return Stamp(int(model_epoch), int(log_epoch), int(offset))

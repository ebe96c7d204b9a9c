"""A library against its source: a scan that sends nothing, held against the items.

Trees are compared file by file as a scan compares them. Items of servers are compared by the server's own ids, under
every name the library knows them by, and by what the server tells of them, as far as a scan would take it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from projections.base import Connection
from projections.rebuild.running import connect
from projections.reconcile.findings import Cause, Findings, Scan, Scope, SetStatus
from schemas.library import ItemDetails, ItemObserved, Observation
from streams.effects.comparing import Comparison
from streams.effects.known import KnownFiles
from streams.effects.scan.ports import KnownFile, SourceFailed
from streams.effects.scan.scanner import ScanCounts, ScanJob, scan
from streams.effects.sources import source_of
from streams.runtime.clock import Clock
from streams.runtime.errors import Permanent
from streams.runtime.settings import Settings
from streams.runtime.trees import SourceTree, scannable
from streams.runtime.upstreams import UpstreamEntry

GRACE_DAYS: Final = 90
"""So long a missing item is listed as missing; then it is archived."""
GRACE_MAX: Final = 10_000
Told = Callable[[str, int], None]
"""Source and how many of its items were listed so far."""

_KNOWN: Final = """
SELECT i.media_id, i.upstream_id, i.details_version, i.title, i.duration_ms, i.media_kind, i.item_kind, i.year,
       i.number, i.part, i.artists, i.provider_ids,
       coalesce(array_agg(a.upstream_id) FILTER (WHERE a.upstream_id IS NOT NULL), '{}')
FROM model.media_items i LEFT JOIN model.upstream_aliases a USING (source_id, media_id)
WHERE i.source_id = %(source)s AND i.status IN ('present', 'provisional') AND NOT i.merged
GROUP BY i.media_id"""
_GRACE: Final = """
SELECT media_id FROM model.media_items
WHERE source_id = %(source)s AND status = 'missing' AND NOT merged AND changed_at < %(before)s
ORDER BY media_id LIMIT %(limit)s"""
_FACTS: Final = ("title", "duration_ms", "media_kind", "item_kind", "year", "number", "part")
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class _Item:
    """As the library has it."""

    media_id: str
    version: int | None
    facts: Mapping[str, Any]


def check_library(
    settings: Settings, source_id: str, findings: Findings, clock: Clock, told: Told = lambda *_: None
) -> None:
    """List one source, and compare. What can't be listed is passed over: nothing is concluded from it."""
    try:
        with connect(settings) as tx:
            _overdue(tx, source_id, findings, clock)
            found = scannable(tx, source_id)
        match found:
            case SourceTree():
                _compare_tree(settings, found, findings, clock, told)
            case UpstreamEntry():
                _compare_server(settings, found, findings, clock, told)
    except (SourceFailed, Permanent) as exc:
        findings.pass_over(Scope.LIBRARY, source_id, str(exc))


def _overdue(tx: Connection, source_id: str, findings: Findings, clock: Clock) -> None:
    before = clock.now_ms() - GRACE_DAYS * _DAY_MS
    rows = tx.execute(_GRACE.encode(), {"source": source_id, "before": before, "limit": GRACE_MAX}).fetchall()
    for (media,) in rows:
        repair = SetStatus(source_id, media, "archived", f"missing_{GRACE_DAYS}_days")
        findings.add(Cause.GRACE_OVER, f"{media} of {source_id}", repair)


def _compare_tree(settings: Settings, tree: SourceTree, findings: Findings, clock: Clock, told: Told) -> None:
    source_id = tree.source_id
    with KnownFiles(settings.postgres.conninfo("owner")) as known:
        comparison = Comparison(source_id, known)
        counts = _scan(tree, comparison, comparison, clock, told)
        found = comparison.difference()
    findings.looked(Scope.LIBRARY, counts.items)
    if not counts.complete:
        findings.pass_over(Scope.LIBRARY, source_id, "the listing is not complete: what is gone is not known")
    again = Scan(source_id)
    named = {Cause.MISSING_HERE: found.new, Cause.FACTS_DIFFER: found.changed}
    if counts.complete:
        named[Cause.GONE_UPSTREAM] = found.gone
    named[Cause.MOVED_UPSTREAM] = [to for _, to in found.moved]
    for cause, paths in named.items():
        for path in paths:
            if path not in found.unsettled and path not in found.failed:
                # Paths can hold names of people: the folder is for operators' own eyes (`playhead scan --dry-run`).
                findings.add(cause, f"{source_id}: {_named(path)}", again)


def _compare_server(settings: Settings, entry: UpstreamEntry, findings: Findings, clock: Clock, told: Told) -> None:
    source_id = entry.source_id
    listed = _Listed()
    counts = _scan(entry, _Nothing(), listed, clock, told)
    # Read after the listing: what a hook or a scan told meanwhile is in it, and what it dropped is not looked for.
    with connect(settings) as tx:
        items, names = _known(tx, source_id)
    findings.looked(Scope.LIBRARY, len(listed.items))
    again = Scan(source_id)
    seen: set[str] = set()
    for upstream, details in sorted(listed.items.items()):
        media = names.get(upstream)
        if media is None:
            findings.add(Cause.MISSING_HERE, f"{source_id} {upstream}", again)
            continue
        seen.add(media)
        item = items[media]
        differs = _differ(item, details)
        if not differs:
            continue
        if _is_newer(item.version, details.version):
            findings.add(Cause.FACTS_DIFFER, f"{source_id} {upstream} is {media} ({', '.join(differs)})", again)
        else:
            findings.settle("the library knows newer details than the server tells")
    if not counts.complete:
        findings.pass_over(Scope.LIBRARY, source_id, "the listing is not complete: what is gone is not known")
        return
    for media in sorted(items.keys() - seen):
        findings.add(Cause.GONE_UPSTREAM, f"{media} of {source_id}", again)


def _scan(found: SourceTree | UpstreamEntry, known: Any, sink: Any, clock: Clock, told: Told) -> ScanCounts:
    source = source_of(found, clock)
    job = ScanJob(found.source_id, 0, "operator", False, "reconcile")

    class Shown:
        def seen(self, items: int, changed: int, unreadable: int) -> None:
            del changed, unreadable
            told(found.source_id, items)

    return scan(job, source, known, sink, _Nobodys(), Shown(), clock)


def _known(tx: Connection, source_id: str) -> tuple[dict[str, _Item], dict[str, str]]:
    """Items that are there by media_id, and their media_id by every id the server may call them by."""
    items: dict[str, _Item] = {}
    names: dict[str, str] = {}
    for media, upstream, version, *facts, artists, providers, aliases in tx.execute(
        _KNOWN.encode(), {"source": source_id}
    ).fetchall():
        told = dict(zip(_FACTS, facts, strict=True))
        told |= {"artists": tuple(artists), "provider_ids": frozenset((one[0], one[1]) for one in providers)}
        items[media] = _Item(media, version, told)
        for name in (*aliases, *([upstream] if upstream else [])):
            names[name] = media
    return items, names


def _differ(item: _Item, details: ItemDetails) -> list[str]:
    told = {name: getattr(details, name) for name in _FACTS}
    told |= {
        "artists": tuple(details.artists),
        "provider_ids": frozenset((one.provider, one.id) for one in details.provider_ids),
    }
    return [name for name, value in told.items() if value != item.facts[name]]


def _is_newer(known: int | None, told: int | None) -> bool:
    """Whether a scan would take it: by the server's time of the last change, where it tells one."""
    return known is None or told is None or told >= known


def _named(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


class _Listed:
    """Sink of a listing."""

    def __init__(self) -> None:
        self.items: dict[str, ItemDetails] = {}

    def send(self, event: Observation) -> None:
        if isinstance(event, ItemObserved) and event.upstream_id is not None and event.details is not None:
            self.items[event.upstream_id] = event.details

    def flush(self) -> None:
        """Nothing goes anywhere."""


class _Nothing:
    """Servers tell everything anew."""

    def folder(self, source_id: str, folder: bytes) -> Mapping[bytes, KnownFile]:
        del source_id, folder
        return {}


class _Nobodys:
    """The lease of what needs none."""

    def check(self) -> None:
        return

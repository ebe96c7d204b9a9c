"""The SQL of the library's read models: what a batch made of its rows is copied into temporary tables, then merged.

Versions guard every row once more, so that a fold over rows that moved meanwhile could not take them back. Inserts
go in key order.
"""
# ruff: noqa: S608 - put together from constants of this module

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_VERSION: Final = {"partition": "integer NOT NULL", "log_epoch": "bigint NOT NULL", "version": "bigint NOT NULL"}
_COUNTS: Final = dict.fromkeys(("present", "provisional", "missing", "archived", "deleted"), "bigint NOT NULL")

ITEM_COLUMNS: Final = {
    "media_id": "text NOT NULL",
    "source_id": "text NOT NULL",
    "status": "text NOT NULL",
    "merged": "boolean NOT NULL",
    "readable": "boolean NOT NULL",
    "generation": "bigint",
    "upstream_id": "text",
    "work_id": "text",
    "details_version": "bigint",
    "content_hash": "text",
    "media_kind": "text",
    "item_kind": "text",
    "title": "text",
    "duration_ms": "bigint",
    "year": "integer",
    "number": "integer",
    "part": "integer",
    "artists": "text[] NOT NULL",
    "provider_ids": "jsonb NOT NULL",
    "first_seen_at": "bigint NOT NULL",
    "changed_at": "bigint NOT NULL",
    "correlation_id": "text NOT NULL",
    **_VERSION,
}
LOCATOR_COLUMNS: Final = ("media_id", "ordinal", "source_id", "folder", "path", "size", "mtime_ns", "device", "inode")
COLLECTION_COLUMNS: Final = {
    "collection_id": "text NOT NULL",
    "source_id": "text NOT NULL",
    "kind": "text",
    "key": "text",
    "name": "text",
    **_COUNTS,
    **_VERSION,
}
SCAN_COLUMNS: Final = {
    "source_id": "text NOT NULL",
    "generation": "bigint NOT NULL",
    "requested_by": "text NOT NULL",
    "status": "text NOT NULL",
    "reason": "text",
    "observations": "bigint NOT NULL",
    "seen": "bigint NOT NULL",
    "added": "bigint NOT NULL",
    "changed": "bigint NOT NULL",
    "moved": "bigint NOT NULL",
    "missing": "bigint NOT NULL",
    "present_before": "bigint NOT NULL",
    "unreadable": "bigint NOT NULL",
    "skipped": "jsonb NOT NULL",
    "started_at": "bigint NOT NULL",
    "changed_at": "bigint NOT NULL",
    "held_at": "bigint",
    "ended_at": "bigint",
    "correlation_id": "text NOT NULL",
    **_VERSION,
}

ITEMS_STAGE: Final = "library_items_stage"
COLLECTIONS_STAGE: Final = "library_collections_stage"
STAGES: Final[Mapping[str, Mapping[str, str]]] = {ITEMS_STAGE: ITEM_COLUMNS, COLLECTIONS_STAGE: COLLECTION_COLUMNS}

CREATE_STAGES: Final = "; ".join(
    f"CREATE TEMPORARY TABLE {stage} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})"
    " ON COMMIT DELETE ROWS"
    for stage, columns in STAGES.items()
)
COPY_ITEMS: Final = f"COPY pg_temp.{ITEMS_STAGE} ({', '.join(ITEM_COLUMNS)}) FROM STDIN"
COPY_COLLECTIONS: Final = f"COPY pg_temp.{COLLECTIONS_STAGE} ({', '.join(COLLECTION_COLUMNS)}) FROM STDIN"
COPY_LOCATORS: Final = f"COPY model.media_locators ({', '.join(LOCATOR_COLUMNS)}) FROM STDIN"
COPY_MEMBERS: Final = "COPY model.collection_items (collection_id, media_id) FROM STDIN"

# --- what the rows say of what a batch names

KNOWN_ITEMS: Final = """
SELECT i.media_id, i.source_id, i.log_epoch, i.version, i.status, i.merged,
    ARRAY(SELECT c.collection_id FROM model.collection_items c WHERE c.media_id = i.media_id)
FROM model.media_items i WHERE i.media_id = ANY(%s)"""
KNOWN_MERGES: Final = """
SELECT media_id, survivor, log_epoch, version FROM model.media_merges
WHERE media_id = ANY(%s) OR survivor = ANY(%s)"""
KNOWN_ALIASES: Final = """
SELECT a.source_id, a.upstream_id, a.log_epoch, a.version
FROM unnest(%s::text[], %s::text[]) AS n (source_id, upstream_id)
JOIN model.upstream_aliases a USING (source_id, upstream_id)"""
KNOWN_SCANS: Final = """
SELECT s.source_id, s.generation, s.log_epoch, s.version
FROM unnest(%s::text[], %s::bigint[]) AS n (source_id, generation)
JOIN model.scan_sessions s USING (source_id, generation)"""
KNOWN_SOURCES: Final = "SELECT source_id, log_epoch, version FROM model.source_state WHERE source_id = ANY(%s)"

# --- rows


def _replace(columns: Mapping[str, str], *keys: str, but: str = "") -> str:
    names = [name for name in columns if name not in (*keys, *but.split())]
    return ", ".join(f"{name} = excluded.{name}" for name in names)


def _newer(new: str) -> str:
    return f"({new}.log_epoch, {new}.version) > (row.log_epoch, row.version)"


def _newest_version(new: str) -> str:
    """That of a row that every record changes, also one that is folded late."""
    return (
        f"partition = {new}.partition, log_epoch = greatest(row.log_epoch, {new}.log_epoch),"
        f" version = CASE WHEN {_newer(new)} THEN {new}.version ELSE row.version END"
    )


_NEWER: Final = _newer("excluded")


UPSERT_ITEMS: Final = f"""
INSERT INTO model.media_items AS row ({", ".join(ITEM_COLUMNS)})
SELECT {", ".join(ITEM_COLUMNS)} FROM pg_temp.{ITEMS_STAGE} ORDER BY media_id
ON CONFLICT (media_id) DO UPDATE SET {_replace(ITEM_COLUMNS, "media_id")} WHERE {_NEWER}"""
# Only their version moves, and whether they ended in another.
TOUCH_ITEMS: Final = """
UPDATE model.media_items AS row
SET merged = n.merged, partition = n.partition, log_epoch = n.log_epoch, version = n.version
FROM unnest(%s::text[], %s::boolean[], %s::integer[], %s::bigint[], %s::bigint[])
    AS n (media_id, merged, partition, log_epoch, version)
WHERE row.media_id = n.media_id AND (n.log_epoch, n.version) > (row.log_epoch, row.version)"""
DELETE_LOCATORS: Final = "DELETE FROM model.media_locators WHERE media_id = ANY(%s)"
DELETE_MEMBERS: Final = """
DELETE FROM model.collection_items AS row USING unnest(%s::text[], %s::text[]) AS n (collection_id, media_id)
WHERE (row.collection_id, row.media_id) = (n.collection_id, n.media_id)"""

_ADDED: Final = ", ".join(f"{name} = row.{name} + excluded.{name}" for name in _COUNTS)
_STAGED: Final = ", ".join(f"{name} = row.{name} + s.{name}" for name in _COUNTS)
UPSERT_COLLECTIONS: Final = f"""
INSERT INTO model.collections AS row ({", ".join(COLLECTION_COLUMNS)})
SELECT {", ".join(COLLECTION_COLUMNS)} FROM pg_temp.{COLLECTIONS_STAGE} WHERE kind IS NOT NULL ORDER BY collection_id
ON CONFLICT (collection_id) DO UPDATE SET {_ADDED},
    name = CASE WHEN {_NEWER} THEN excluded.name ELSE row.name END, {_newest_version("excluded")}"""
# Items only left these, so no record names them.
UPDATE_COLLECTIONS: Final = f"""
UPDATE model.collections AS row
SET {_STAGED}, {_newest_version("s")}
FROM pg_temp.{COLLECTIONS_STAGE} s WHERE s.collection_id = row.collection_id AND s.kind IS NULL"""
DELETE_EMPTY: Final = f"""
DELETE FROM model.collections AS row USING pg_temp.{COLLECTIONS_STAGE} s
WHERE s.collection_id = row.collection_id AND {" + ".join(f"row.{name}" for name in _COUNTS)} = 0"""

UPSERT_ALIASES: Final = f"""
INSERT INTO model.upstream_aliases AS row (source_id, upstream_id, media_id, partition, log_epoch, version)
SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[]) ORDER BY 1, 2
ON CONFLICT (source_id, upstream_id) DO UPDATE SET media_id = excluded.media_id, partition = excluded.partition,
    log_epoch = excluded.log_epoch, version = excluded.version
WHERE {_NEWER}"""
# The door keeps an alias it finds, so the library's word replaces its computed one, and its doors look again. Of all
# that a batch names, whether or not it is news to the read models: where the door looks may be older than they are.
UPSERT_DOORS_ALIASES: Final = """
WITH said AS (
    INSERT INTO core.media_aliases AS row (source_id, upstream_media, media_id)
    SELECT a.source_id, a.upstream_id, a.media_id FROM unnest(%s::text[], %s::text[]) AS n (source_id, upstream_id)
    JOIN model.upstream_aliases a USING (source_id, upstream_id) ORDER BY 1, 2
    ON CONFLICT (source_id, upstream_media) DO UPDATE SET media_id = excluded.media_id
    WHERE row.media_id <> excluded.media_id
    RETURNING row.source_id)
INSERT INTO core.alias_versions AS row (source_id, version) SELECT DISTINCT source_id, 1 FROM said ORDER BY 1
ON CONFLICT (source_id) DO UPDATE SET version = row.version + 1"""
# The same of all there are, after the read models were replaced.
RENEW_DOORS_ALIASES: Final = """
WITH said AS (
    INSERT INTO core.media_aliases AS row (source_id, upstream_media, media_id)
    SELECT source_id, upstream_id, media_id FROM model.upstream_aliases ORDER BY 1, 2
    ON CONFLICT (source_id, upstream_media) DO UPDATE SET media_id = excluded.media_id
    WHERE row.media_id <> excluded.media_id
    RETURNING row.source_id)
INSERT INTO core.alias_versions AS row (source_id, version) SELECT DISTINCT source_id, 1 FROM said ORDER BY 1
ON CONFLICT (source_id) DO UPDATE SET version = row.version + 1"""
UPSERT_MERGES: Final = f"""
INSERT INTO model.media_merges AS row (media_id, survivor, partition, log_epoch, version)
SELECT * FROM unnest(%s::text[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[]) ORDER BY 1
ON CONFLICT (media_id) DO UPDATE SET survivor = excluded.survivor, partition = excluded.partition,
    log_epoch = excluded.log_epoch, version = excluded.version
WHERE {_NEWER}"""
# Whose playback of media that ended is shown as that of the survivor from here on: with all names it goes by, the
# newest version of the rows that are shown, and that of the person's lists.
MERGED_PLAYBACK: Final = """
WITH touched AS (
    SELECT DISTINCT p.user_ref, n.survivor FROM unnest(%s::text[], %s::text[]) AS n (media_id, survivor)
    JOIN model.playback_progress p USING (media_id)
), members AS (
    SELECT user_ref, survivor, survivor AS media_id FROM touched
    UNION ALL
    SELECT t.user_ref, t.survivor, m.media_id FROM touched t JOIN model.media_merges m USING (survivor)
)
SELECT p.user_ref, m.survivor, array_agg(DISTINCT p.media_id), max(ARRAY[p.log_epoch, p.version]), max(p.partition),
    max(ARRAY[u.log_epoch, u.version])
FROM members m JOIN model.playback_progress p USING (user_ref, media_id) JOIN model.user_versions u USING (user_ref)
GROUP BY p.user_ref, m.survivor ORDER BY p.user_ref, m.survivor"""
UPSERT_SCAN: Final = f"""
INSERT INTO model.scan_sessions AS row ({", ".join(SCAN_COLUMNS)})
VALUES ({", ".join("%s" for _ in SCAN_COLUMNS)})
ON CONFLICT (source_id, generation) DO UPDATE SET
    {_replace(SCAN_COLUMNS, "source_id", "generation", but="held_at")},
    held_at = coalesce(row.held_at, excluded.held_at)
WHERE {_NEWER}"""

_SOURCE_COLUMNS: Final = (
    "source_id",
    *_COUNTS,
    "finalized_generation",
    "items_log_epoch",
    "items_version",
    *_VERSION,
)
UPSERT_SOURCE: Final = f"""
INSERT INTO model.source_state AS row ({", ".join(_SOURCE_COLUMNS)})
VALUES ({", ".join(f"%({name})s" for name in _SOURCE_COLUMNS)})
ON CONFLICT (source_id) DO UPDATE SET {_ADDED},
    finalized_generation = CASE
        WHEN {_NEWER} THEN coalesce(excluded.finalized_generation, row.finalized_generation)
        ELSE greatest(row.finalized_generation, excluded.finalized_generation) END,
    items_log_epoch = greatest(row.items_log_epoch, excluded.items_log_epoch),
    items_version = CASE
        WHEN (row.items_log_epoch, row.items_version) > (excluded.items_log_epoch, excluded.items_version)
        THEN row.items_version ELSE coalesce(excluded.items_version, row.items_version) END,
    {_newest_version("excluded")}"""
HOLD_SOURCE: Final = """
UPDATE model.source_state SET held = %(held)s, held_reason = %(reason)s, held_changed_at = %(logged_at)s,
    held_removals = %(removals)s
WHERE source_id = %(source_id)s"""
# One folded late: nothing was said since.
HOLD_SOURCE_LATE: Final = f"{HOLD_SOURCE} AND (held_changed_at IS NULL OR held_changed_at < %(logged_at)s)"
# Media that were merged since a record about them.
MERGED_SINCE: Final = """
SELECT EXISTS (SELECT FROM model.media_merges
    WHERE (media_id = ANY(%(media)s) OR survivor = ANY(%(media)s))
      AND (log_epoch, version) > (%(log_epoch)s, %(version)s))"""

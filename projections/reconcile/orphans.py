"""What stands alone: playback without its media, items and tasks without their source, places without their item."""

from __future__ import annotations

from typing import Final

from projections.base import Connection
from projections.reconcile.findings import CancelScan, Cause, Findings, Refold, Repair, Scan, Scope, SetStatus

READ_MAX: Final = 10_000
"""Of each kind of orphan so many are looked at in one run; the next run finds the others."""

# Only of sources with a library: what nobody lists is known by its playback alone. A scan that began after the playback
# was decided has looked for it: then that it is not listed is what there is to know.
_PROGRESS: Final = """
SELECT p.user_ref, p.media_id, h.source_id
FROM model.playback_progress p
CROSS JOIN LATERAL (
    SELECT source_id FROM model.progress_history h WHERE h.user_ref = p.user_ref AND h.media_id = p.media_id
    ORDER BY h.log_epoch DESC, h.version DESC LIMIT 1) AS h
WHERE NOT EXISTS (SELECT FROM model.media_items i WHERE i.media_id = p.media_id)
  AND NOT EXISTS (SELECT FROM model.media_merges m WHERE m.media_id = p.media_id)
  AND (EXISTS (SELECT FROM core.source_trees t WHERE t.source_id = h.source_id)
       OR EXISTS (SELECT FROM core.source_upstreams u JOIN core.sources k USING (source_id)
                  WHERE u.source_id = h.source_id AND k.kind = ANY(%(listed)s)))
  AND NOT EXISTS (SELECT FROM model.scan_sessions s WHERE s.source_id = h.source_id AND s.status = 'finalized'
                  AND s.started_at > p.updated_ms)
ORDER BY 1, 2 LIMIT %(limit)s"""
_MEDIA: Final = """
SELECT source_id, media_id FROM model.media_items i
WHERE NOT merged AND status <> 'deleted' AND NOT EXISTS (SELECT FROM core.sources s WHERE s.source_id = i.source_id)
ORDER BY 1, 2 LIMIT %(limit)s"""
_TASKS: Final = """
SELECT kind, key, source_id, wanted_version FROM core.tasks t
WHERE kind = 'scan' AND dead_at IS NULL AND wanted_version > greatest(done_version, cancelled_version)
  AND NOT EXISTS (SELECT FROM core.sources s WHERE s.source_id = t.source_id)
ORDER BY 1, 2 LIMIT %(limit)s"""
_LOCATORS: Final = """
SELECT DISTINCT media_id FROM model.media_locators l
WHERE NOT EXISTS (SELECT FROM model.media_items i WHERE i.media_id = l.media_id) ORDER BY 1 LIMIT %(limit)s"""
_MEMBERS: Final = """
SELECT collection_id, media_id FROM model.collection_items c
WHERE NOT EXISTS (SELECT FROM model.media_items i WHERE i.media_id = c.media_id)
   OR NOT EXISTS (SELECT FROM model.collections k WHERE k.collection_id = c.collection_id)
ORDER BY 1, 2 LIMIT %(limit)s"""
_COUNTED: Final = """
SELECT (SELECT count(*) FROM model.playback_progress) + (SELECT count(*) FROM model.media_items)
     + (SELECT count(*) FROM core.tasks)"""
_LISTED: Final = ("subsonic", "jellyfin", "audiobookshelf")


def check_orphans(tx: Connection, findings: Findings) -> None:
    """``tx``: of the owner, at one moment."""

    def rows(query: str) -> list[tuple[str, ...]]:
        return tx.execute(query.encode(), {"limit": READ_MAX, "listed": list(_LISTED)}).fetchall()

    for user, media, source in rows(_PROGRESS):
        findings.add(Cause.ORPHAN_PROGRESS, f"{user}:{media} of {source}", Scan(source))
    for source, media in rows(_MEDIA):
        repair: Repair = SetStatus(source, media, "deleted", "source_gone")
        findings.add(Cause.ORPHAN_MEDIA, f"{media} of {source}", repair)
    for kind, key, source, version in rows(_TASKS):
        findings.add(Cause.ORPHAN_TASK, f"{kind} {key} of {source}", CancelScan(source, int(version)))
    for (media,) in rows(_LOCATORS):
        findings.add(Cause.ORPHAN_LOCATOR, media, Refold("library"))
    for collection, media in rows(_MEMBERS):
        findings.add(Cause.ORPHAN_MEMBER, f"{media} in {collection}", Refold("library"))
    [(counted,)] = tx.execute(_COUNTED.encode()).fetchall()
    findings.looked(Scope.ORPHANS, int(counted))

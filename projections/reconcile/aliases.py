"""Names the library gave to media, against those the door looks media up by; and media that ended.

The door's table also has names it made up itself, of media no library ever spoke of: those stay as they are.
"""

from __future__ import annotations

from typing import Final

from projections.base import Connection
from projections.reconcile.findings import Cause, Findings, Refold, Scope

_LOST: Final = """
SELECT u.source_id, u.upstream_id, u.media_id, d.media_id
FROM model.upstream_aliases u LEFT JOIN core.media_aliases d
  ON d.source_id = u.source_id AND d.upstream_media = u.upstream_id
WHERE d.media_id IS DISTINCT FROM u.media_id ORDER BY 1, 2"""
_MERGES: Final = """
SELECT m.media_id, m.survivor FROM model.media_merges m
WHERE EXISTS (SELECT FROM model.media_items i WHERE i.media_id = m.media_id AND NOT i.merged)
   OR EXISTS (SELECT FROM model.media_merges n WHERE n.media_id = m.survivor) ORDER BY 1"""
_COUNTED: Final = "SELECT (SELECT count(*) FROM model.upstream_aliases) + (SELECT count(*) FROM model.media_merges)"


def check_aliases(tx: Connection, findings: Findings) -> None:
    """``tx``: of the owner, at one moment. Renewing the library's read models gives the door its names again."""
    for source, upstream, media, known in tx.execute(_LOST.encode()).fetchall():
        is_now = f", is {known}" if known else ""
        findings.add(Cause.ALIAS_LOST, f"{source} {upstream} should be {media}{is_now}", Refold("library"))
    for media, survivor in tx.execute(_MERGES.encode()).fetchall():
        findings.add(Cause.MERGE_NOT_APPLIED, f"{media} in {survivor}", Refold("library"))
    [(counted,)] = tx.execute(_COUNTED.encode()).fetchall()
    findings.looked(Scope.ALIASES, int(counted))

"""What ``playhead backup restore`` does, step by step."""

from __future__ import annotations

import hmac
import uuid
from pathlib import Path

import psycopg

from projections.backup.archive import verified
from projections.backup.restoring import Restored, logs_of, restore
from projections.entry import PROJECTIONS
from streams.cli.admin import answering
from streams.cli.forgetting import Carried, carry_out
from streams.ingest.forgetting import read_identities
from streams.ingest.people import identity_key, marker_of_account
from streams.runtime.errors import ConfigurationError
from streams.runtime.failpoints import armed
from streams.runtime.settings import Settings


def key_check(settings: Settings) -> str:
    """What tells two identity keys apart and gives neither away."""
    return hmac.new(settings.identity.key(), b"playhead backup", "sha256").hexdigest()[:16]


def restore_file(settings: Settings, file: Path, *, replace: bool) -> tuple[Restored, Carried]:
    """Restore ``file``; afterwards database and log agree on who was forgotten.

    Raises Permanent for a file that is no good and for a database that is not ready for it, ConfigurationError when
    people were hashed with another key, Unavailable. All but the last step is one transaction.
    """
    with verified(file) as reader:
        if not hmac.compare_digest(reader.manifest.key_check, key_check(settings)):
            raise ConfigurationError(
                "the backup is of a Playhead with another identity key: with this one everybody would be somebody "
                "new. Set PLAYHEAD_IDENTITY__HASH_KEY to the key of then."
            )
        written = read_identities(settings.kafka.client())

        def in_log(source_id: str, upstream_user: str) -> bool:
            key = identity_key(settings.identity.key(), source_id, upstream_user)
            # Of somebody who was forgotten there is nothing left to tell it.
            return key in written or marker_of_account(settings.identity.key(), key) in written

        logs = logs_of(settings.kafka, reader.manifest.offsets)
        with answering(settings), psycopg.connect(**settings.postgres.conninfo("owner")) as connection:
            done = restore(connection, reader, logs, PROJECTIONS, in_log, replace=replace)
    return done, carry_out(settings, uuid.uuid4().hex, armed(settings.failpoints))

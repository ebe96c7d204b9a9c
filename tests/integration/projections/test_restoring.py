"""A backup restored where read models stand: what core repeats of them is what they say."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from projections.backup.archive import verified
from projections.backup.copying import write
from projections.backup.restoring import restore
from projections.models.library import LibraryProjection
from streams.runtime.settings import Settings

pytestmark = pytest.mark.services

A, B = "a" * 32, "b" * 32


def test_a_name_given_to_another_media_since_the_backup_stays_with_it(model_settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "b.zip"
    with psycopg.connect(**model_settings.postgres.conninfo("owner")) as owner:
        owner.execute("INSERT INTO core.sources (source_id, kind, name) VALUES ('den', 'jellyfin', 'den')")
        owner.execute("INSERT INTO core.media_aliases VALUES ('den', 'u', %s), ('den', 'own', %s)", (A, A))
        owner.execute(
            "INSERT INTO model.offsets (projection, topic, partition, next_offset)"
            " VALUES ('library', 'library.changed', 0, 7)"
        )
    with psycopg.connect(**model_settings.postgres.conninfo("owner")) as owner:
        write(owner, file, "key")
    with psycopg.connect(**model_settings.postgres.conninfo("owner")) as owner:
        owner.execute(
            "INSERT INTO model.upstream_aliases (source_id, upstream_id, media_id, partition, log_epoch, version)"
            " VALUES ('den', 'u', %s, 0, 1, 6)",
            (B,),
        )
    with verified(file) as reader, psycopg.connect(**model_settings.postgres.conninfo("owner")) as owner:
        projections = {LibraryProjection.name: LibraryProjection}
        restore(owner, reader, {}, projections, lambda source_id, upstream_user: True, replace=True)
        names = owner.execute("SELECT upstream_media, media_id FROM core.media_aliases ORDER BY 1").fetchall()
        assert names == [("own", A), ("u", B)], "and names the door made up itself are those of the backup"
        assert owner.execute("SELECT source_id FROM core.alias_versions").fetchall() == [("den",)]

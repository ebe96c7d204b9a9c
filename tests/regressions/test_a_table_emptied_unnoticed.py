"""A changelog that was deleted and created again was refused only if it was that of the first table, which has the
source offsets. Any other was taken for a table without rows: the worker rebuilt it as empty and went on."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.engine import Refused
from streams.engine.changelog import SourceMark
from streams.engine.resume import check_changelogs
from tests.engine.fakes import CHANGELOG_ID, TABLE, FakeProducer, config, make_batch, record, restored_unit


def test_given_a_committed_batch_then_a_changelog_made_anew_is_known_from_what_was_written(tmp_path: Path) -> None:
    settings, producer = config(tmp_path), FakeProducer()
    unit = restored_unit(settings, producer)
    unit.commit(make_batch(settings, [record(0)], rows=unit.store))
    unit.close(0)
    written = [value for topic, _, value in producer.committed if topic == TABLE.changelog and value is not None]
    marks = [SourceMark.decode(written[-1])]
    check_changelogs(0, marks, {TABLE.name: CHANGELOG_ID})
    with pytest.raises(Refused, match="its changelog was recreated"):
        check_changelogs(0, marks, {TABLE.name: "another"})

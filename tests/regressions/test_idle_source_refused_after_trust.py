"""After one start with trust_group_offsets, which accepts a recreated changelog, the next start was refused again: the
mark of a source that had nothing to do meanwhile still named the changelog of before, whatever the others said."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.engine import Refused
from streams.engine.changelog import SourceMark
from streams.engine.resume import check_changelogs
from tests.engine.fakes import CHANGELOG_ID, TABLE, FakeProducer, config, make_batch, record, restored_unit


def test_given_a_commit_since_the_trusted_start_then_an_idle_source_no_longer_refuses_it(tmp_path: Path) -> None:
    settings = config(tmp_path)
    unit = restored_unit(settings, FakeProducer())
    idle = SourceMark("id-of-another", 12, 1, ((TABLE.name, "the-changelog-of-before"),))
    with pytest.raises(Refused, match="recreated"):
        check_changelogs(0, [idle], {TABLE.name: CHANGELOG_ID})
    # The trusted start works on the other source only.
    unit.commit(make_batch(settings, [record(0)], unit.store))
    state = unit.store.state
    assert state is not None
    check_changelogs(0, [idle, *state.sources.values()], {TABLE.name: CHANGELOG_ID})
    unit.close(0)

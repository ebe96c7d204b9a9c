"""Where projections go on after a restore, beside every kind of log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from projections.backup.archive import SavedOffset
from projections.backup.positions import Placed, place
from projections.log_guard import Extent

SAVED = SavedOffset("tasks", "a.topic", 0, "id-1", 2, 100, {"cause": [7, 0]})


def at(first: int, end: int) -> dict[int, Extent]:
    return {0: Extent(first, end), 1: Extent(0, 10)}


def test_beside_the_same_log_what_is_in_the_backup_goes_on_where_it_stood() -> None:
    placing = place([SAVED], "id-1", at(0, 150), rebuilt=False)
    assert placing.rows == (Placed(0, "id-1", 2, 100, False, {"cause": [7, 0]}),)
    assert placing.words == ()


def test_beside_an_older_log_it_goes_on_at_its_end_under_a_higher_epoch_in_every_partition() -> None:
    other = replace(SAVED, partition=1, next_offset=10, log_epoch=1)
    placing = place([other, SAVED], "id-1", at(0, 60), rebuilt=False)
    assert placing.rows == (Placed(0, "id-1", 3, 60, False, {}), Placed(1, "id-1", 3, 10, False, {}))
    [words] = placing.words
    assert "ends at 60, the backup stood at 100: the log is older than the backup" in words


def test_beside_another_log_everything_begins_at_its_first_record() -> None:
    placing = place([SAVED], "id-2", at(5, 6), rebuilt=False)
    assert placing.rows == (Placed(0, None, 3, 0, True, {}),)
    assert "another log" in placing.words[0]


def test_beside_a_log_whose_head_was_cut_it_goes_on_at_what_there_is_and_says_what_is_gone() -> None:
    placing = place([SAVED], "id-1", at(130, 150), rebuilt=False)
    assert placing.rows == (Placed(0, "id-1", 2, 130, False, {"cause": [7, 0]}),)
    assert "30 records after the backup are gone" in placing.words[0]


@pytest.mark.parametrize(("end", "epoch"), [(150, 2), (60, 3)])
def test_what_is_rebuilt_begins_at_the_first_record_and_never_under_an_epoch_left(end: int, epoch: int) -> None:
    placing = place([SAVED], "id-1", at(0, end), rebuilt=True)
    assert placing.rows == (Placed(0, None, epoch, 0, True, {}),)


def test_an_epoch_the_database_knows_already_is_not_undercut() -> None:
    assert place([SAVED], "id-1", at(0, 150), rebuilt=False, log_epoch=9).rows[0].log_epoch == 9


def test_a_partition_that_was_never_read_is_read_from_its_first_record() -> None:
    assert place([replace(SAVED, topic_id=None, next_offset=0)], "id-1", at(0, 150), rebuilt=False).rows[0].adopting

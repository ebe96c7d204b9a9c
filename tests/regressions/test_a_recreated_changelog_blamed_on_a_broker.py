"""Of a table's changelog that was deleted and created again, the last transaction's part is missing. Where another
table's changelog has the marks, that was taken for a part a restarted broker had lost, before anybody looked at the
topic ids: refused, but with a cause that was not so and no word of the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.engine import Refused
from streams.engine.batch import TableSpec
from tests.integration.engine.lab import Lab
from tests.integration.engine.torn import BEFORE, PARTITION, process

pytestmark = pytest.mark.services


def test_given_a_recreated_changelog_without_marks_then_the_refusal_names_its_table(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    lab = Lab(kafka_bootstrap, topic_prefix, tmp_path)
    # The first by name has the marks.
    lab.tables.append(TableSpec.of(topic_prefix, "places"))
    process(lab)
    lab.create_again(lab.table.changelog, {"cleanup.policy": "compact"})
    with lab.worker() as worker, pytest.raises(Refused, match=r"table 'rows'.*its changelog was recreated"):
        worker.restore({PARTITION: BEFORE})

"""The dashboard shows what there is: no panel asks for a number that no process gives."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.house.test_compose import ROLES, SERVICES
from tests.observe.queries import OBSERVE, SCRAPED, dashboard, known, panels, query, wrong

TARGETS = [
    pytest.param(panel["title"], target, id=f"{panel['title']}-{target['refId']}")
    for panel in panels()
    for target in panel["targets"]
]


@pytest.mark.parametrize(("title", "target"), TARGETS)
def test_a_panel_asks_only_for_what_there_is(title: str, target: dict[str, str]) -> None:
    asked = query(target["expr"])
    assert wrong(asked) == [], title
    shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    labels = SCRAPED.union(*(known()[name] for name in asked.metrics))
    assert shown <= labels
    if asked.grouped:
        assert shown <= asked.grouped


def test_every_number_there_is_is_on_the_dashboard() -> None:
    shown = {name for panel in panels() for target in panel["targets"] for name in query(target["expr"]).metrics}
    # Of a histogram the buckets are enough; bytes of the spool say the same as how full it is.
    wanted = {name for name in known() if not name.endswith(("_sum", "_count"))} - {"playhead_spool_bytes"}
    assert wanted - shown == set()


def test_panels_lie_in_rows_beside_each_other_and_have_ids_of_their_own() -> None:
    everything = dashboard()["panels"]
    assert everything[0]["type"] == "row"
    assert len({panel["id"] for panel in everything}) == len(everything)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in everything]
    assert len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in everything)
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rate(playhead_nothing_total[5m])", "no metric playhead_nothing_total"),
        ('playhead_tasks_dead{sort="x"}', "playhead_tasks_dead has no label sort"),
        ("sum by (agent) (playhead_tasks_dead)", "nothing in it has a label agent"),
        ("vector(1)", "reads no metric"),
    ],
)
def test_the_rule_finds_what_is_wrong(text: str, said: str) -> None:
    assert said in wrong(query(text))


def test_every_role_is_scraped_at_its_port() -> None:
    config = yaml.safe_load((OBSERVE / "prometheus.yml").read_text("utf-8"))
    [job] = config["scrape_configs"]
    [targets] = [static["targets"] for static in job["static_configs"]]
    port = SERVICES["relay"]["environment"]["PLAYHEAD_METRICS__PORT"]
    assert set(targets) == {f"{role}:{port if role != 'serve' else 8420}" for role in ROLES}
    [relabel] = job["relabel_configs"]
    assert relabel["target_label"] == "process"
    assert {re.fullmatch(relabel["regex"], target)[1] for target in targets} == ROLES  # type: ignore[index]


def test_what_compose_mounts_for_watching_is_there() -> None:
    mounted = [volume.split(":")[0] for name in ("prometheus", "grafana") for volume in SERVICES[name]["volumes"]]
    files = {path.removeprefix("./docker/observe/") for path in mounted if path.startswith("./docker/observe/")}
    assert files == {path.name for path in OBSERVE.iterdir() if path.suffix in {".yml", ".json"}}

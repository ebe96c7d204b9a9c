"""PromQL as far as its names go: which metrics a query reads, and which labels it says of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from prometheus_client import Counter, Gauge, Histogram

from streams.runtime import metrics
from tests.house.tree import ROOT

OBSERVE = ROOT / "docker" / "observe"
SCRAPED = frozenset({"job", "instance", "process"})
"""Labels that Prometheus gives what it scrapes (prometheus.yml)."""

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"\b([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}")
_MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_NAME = re.compile(r"\b(?:playhead_\w+|up)\b")


@dataclass(frozen=True)
class Query:
    """``metrics``: with the labels its selectors name; ``grouped``: labels it groups by."""

    text: str
    metrics: dict[str, set[str]] = field(default_factory=dict)
    grouped: set[str] = field(default_factory=set)


def query(text: str) -> Query:
    bare = _STRING.sub('""', text)
    found = Query(text)
    for name in _NAME.findall(bare):
        found.metrics.setdefault(name, set())
    for name, inside in _SELECTOR.findall(bare):
        found.metrics.setdefault(name, set()).update(_MATCHER.findall(inside))
    for inside in _GROUPING.findall(bare):
        found.grouped.update(label.strip() for label in inside.split(",") if label.strip())
    return found


@cache
def known() -> dict[str, frozenset[str]]:
    """Every sample the processes can give, with its labels."""
    found = {"up": frozenset[str]()}
    for one in vars(metrics).values():
        if not isinstance(one, Counter | Gauge | Histogram):
            continue
        labels = frozenset(one._labelnames)
        match one._type:
            case "counter":
                found[f"{one._name}_total"] = labels
            case "gauge":
                found[one._name] = labels
            case "histogram":
                found[f"{one._name}_bucket"] = labels | {"le"}
                found[f"{one._name}_sum"] = found[f"{one._name}_count"] = labels
    return found


def wrong(one: Query) -> list[str]:
    """What is wrong with a query: metrics and labels that are none."""
    names = known()
    said = [f"no metric {name}" for name in one.metrics if name not in names]
    if not one.metrics:
        said.append("reads no metric")
    for name, labels in one.metrics.items():
        allowed = names.get(name, frozenset()) | SCRAPED
        said += [f"{name} has no label {label}" for label in labels - allowed]
    every = SCRAPED.union(*(names.get(name, frozenset()) for name in one.metrics))
    # Each of the metrics that a grouping is about must have it, or Prometheus groups what is left into one.
    said += [f"nothing in it has a label {label}" for label in one.grouped - every]
    for name in one.metrics.keys() & names.keys():
        lacking = one.grouped - names[name] - SCRAPED
        said += [f"{name} is grouped by {label}, which it has not" for label in lacking]
    return said


def dashboard() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((OBSERVE / "dashboard.json").read_text("utf-8"))
    return loaded


def panels() -> Iterator[dict[str, Any]]:
    """All but rows."""
    for panel in dashboard()["panels"]:
        if panel["type"] != "row":
            yield panel


def rules(path: Path = OBSERVE / "alerts.yml") -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text("utf-8"))["groups"] for rule in group["rules"]]

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from streams.local import Cache, LocalStackError
from tests.benchmarks import chart, engine_bench, report
from tests.benchmarks.figures import Absent, Figures, Row, middle, parse, percentile, ratios
from tests.benchmarks.kafka_streams import manifest
from tests.benchmarks.kafka_streams import peer as kafka_streams
from tests.benchmarks.quix import peer as quix
from tests.benchmarks.stopwatch import Stopwatch


def figures(per_s: float, cpu_per_record: float = 1e-5, peak: float = 1.0) -> Figures:
    return Figures(1_000.0, 1_000 / per_s, 1_000 * cpu_per_record, peak)


def test_figures_are_found_behind_other_text_on_the_line() -> None:
    line = '{"records": 10, "wall_s": 2.0, "cpu_s": 4.0, "peak_rss_mib": 8.5, "java": "17"}'
    assert parse(f"noise\n| worker |{line}\nbye\n") == Figures(10.0, 2.0, 4.0, 8.5)
    assert (Figures(10.0, 2.0, 4.0, 8.5).per_s, Figures(10.0, 2.0, 4.0, 8.5).per_cpu_s) == (5.0, 2.5)


def test_a_worker_that_said_nothing_has_no_figures() -> None:
    assert parse("Traceback …") is None


def test_the_middle_is_the_median_of_each_rate_by_itself() -> None:
    rows = [figures(100, 3e-5, 7), figures(300, 1e-5, 9), figures(200, 2e-5, 8)]
    found = middle(rows)
    assert isinstance(found, Figures)
    assert (found.per_s, found.per_cpu_s, found.peak_rss_mib) == pytest.approx((200, 50_000, 9))


def test_who_was_absent_once_is_absent() -> None:
    assert middle([figures(1), Absent("no javac")]) == Absent("no javac")


def test_ratios_are_of_the_engine_to_each_peer_that_was_there() -> None:
    rows: dict[str, Row] = {"engine": figures(1_000, 1e-5), "stock": figures(20, 4e-4), "quix": Absent("away")}
    assert ratios(rows) == pytest.approx({"times_stock_wall": 50, "times_stock_cpu": 40})
    assert ratios({"stock": figures(20)}) == {}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.95, 95), (0.99, 99), (1.0, 100)])
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), share) == expected
    assert percentile([7.0], share) == 7.0


def test_the_window_opens_with_the_batch_that_passes_the_warm_up(capfd: pytest.CaptureFixture[str]) -> None:
    watch = Stopwatch(total=100, warm=30)
    for number in range(10):
        watch.taken(10)
        assert watch.durable(10) is (number == 9)
    found = parse(capfd.readouterr().out)
    assert found is not None
    # Three batches were warm-up: the fourth is the first with a record beyond it.
    assert found.records == 70
    assert watch.durable(1) is False


def test_the_window_opens_at_a_commit_where_only_commits_are_seen(capfd: pytest.CaptureFixture[str]) -> None:
    watch = Stopwatch(total=100, warm=25)
    assert [watch.committed(10) for _ in range(10)] == [False] * 9 + [True]
    found = parse(capfd.readouterr().out)
    assert found is not None
    assert found.records == 70


def test_without_a_jdk_the_row_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    found = kafka_streams.prepare()
    assert isinstance(found, Absent)
    assert "javac" in found.reason


def test_without_the_jars_the_row_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def away(*_: object) -> Path:
        raise LocalStackError("no network")

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "javac").touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(Cache, "ensure", away)
    assert kafka_streams.prepare() == Absent("no network")


def test_without_quix_the_row_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("venv.create", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    assert quix.prepare(tmp_path) == Absent("Quix Streams could not be installed: disk full")


def test_every_jar_and_every_package_of_a_peer_is_pinned_by_its_hash() -> None:
    jars = {artifact.name for artifact in manifest.load().artifacts if len(artifact.sha256) == 64}
    assert {"kafka-streams", "kafka-clients", "rocksdbjni", "avro"} <= jars
    assert len(jars) == len(manifest.load().artifacts)
    requirements = quix.REQUIREMENTS.read_text("utf-8").replace("\\\n", " ").splitlines()
    assert requirements
    assert all("==" in line and "--hash=sha256:" in line for line in requirements)


ROWS = {
    "engine": figures(60_000, 1.5e-5).plain(),
    "kafka_streams": figures(40_000, 2e-5).plain(),
    "raw": figures(200_000).plain(),
    "quix": Absent("no <network> & no cache").plain(),
}


def test_the_chart_shows_whom_was_measured_and_nobody_else() -> None:
    text = chart.svg("Records & seconds", "exactly once", chart.bars(ROWS))
    tree = ElementTree.fromstring(text)
    words = " ".join(tree.itertext())
    assert "this engine" in words
    assert "60,000/s" in words
    assert "50,000/CPU-s" in words
    assert "Quix" not in words
    assert "raw" not in words
    lengths = [float(bar.attrib["width"]) for bar in tree.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(lengths) == 4
    # 66,667 per CPU-second is the longest; 40,000 of it is six tenths.
    assert lengths[2] / max(lengths) == pytest.approx(0.6, abs=0.01)


def test_the_report_says_why_somebody_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    report.show({"throughput": {"200000": ROWS}, "ratios": {"times_stock_cpu": 41.5}}, Console(width=120))
    shown = capsys.readouterr().out
    assert "Quix Streams: not measured. no <network> & no cache" in shown
    assert "66,667" in shown
    assert "times stock cpu: 41.50" in shown


def test_the_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        engine_bench.arguments(["--help"])
    assert "make bench ARGS=" in capsys.readouterr().out


def test_figures_are_json() -> None:
    assert json.loads(json.dumps(figures(5).plain()))["per_s"] == pytest.approx(5)

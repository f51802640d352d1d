"""The alert rules and the dashboard name exported metrics, and docs/monitoring.md describes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from walferry.observe.status.measures import MEASURES
from walferry.replication.peers.settings import MAX_LAG

REPO = Path(__file__).resolve().parents[2]
ALERTS = REPO / "monitoring" / "prometheus-alerts.yaml"
DASHBOARD = REPO / "monitoring" / "grafana-dashboard.json"
DOCS = (REPO / "docs" / "monitoring.md").read_text()
EXPORTED = {measure.prometheus for measure in MEASURES.values()}
PROMTOOL = shutil.which("promtool")
LABELS = {"source", "peer", "measure"}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions(value: Any) -> Iterator[str]:
    """The PromQL in a dashboard, wherever it lies."""
    if isinstance(value, dict):
        yield from (text for name, text in value.items() if name in ("expr", "definition") and isinstance(text, str))
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from expressions(item)


def named(expression: str) -> set[str]:
    return set(re.findall(r"\bwalferry_\w+", expression))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_names_metrics_and_labels_that_are_exported(rule: dict[str, Any]) -> None:
    assert named(rule["expr"])
    assert named(rule["expr"]) <= EXPORTED
    assert rule["expr"].count("(") == rule["expr"].count(")")
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"]))) <= LABELS
    assert rule["alert"] in DOCS


def test_there_is_an_alert_for_each_kind_of_finding() -> None:
    watched = set().union(*(named(rule["expr"]) for rule in rules()))
    peers = ("refused", "peer_cluster_up", "failing", "stuck", "max_lag_seconds")
    assert {f"walferry_{what}" for what in (*peers, "source_up", "orphaned_queues", "disk_full_seconds")} <= watched


def test_the_dashboard_shows_metrics_that_are_exported() -> None:
    board = json.loads(DASHBOARD.read_text())
    found = list(expressions(board))
    assert len(found) > 20
    assert set().union(*map(named, found)) <= EXPORTED
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(panel["targets"] for panel in board["panels"])


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_documentation_has_every_metric_and_setting() -> None:
    assert [name for name, measure in MEASURES.items() if f"`{name}`" not in DOCS or f"`{measure.prometheus}`" not in DOCS] == []
    assert set(re.findall(r"`(walferry_\w+)`", DOCS)) - {"walferry_notified"} <= EXPORTED
    for setting in (MAX_LAG.key, "watch_schedule", "notifiers", "warn_days_left", "walferry_notified"):
        assert f"`{setting}`" in DOCS


@pytest.mark.skipif(PROMTOOL is None, reason="promtool, of Debian's package prometheus, is not on PATH")
def test_prometheus_raises_the_alerts_when_it_should() -> None:
    assert PROMTOOL is not None
    for command in (["check", "rules", ALERTS.name], ["test", "rules", f"{ALERTS.stem}.test.yaml"]):
        done = subprocess.run([PROMTOOL, *command], cwd=ALERTS.parent, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_case_for_promtool_in_which_it_is_raised() -> None:
    cases = yaml.safe_load((ALERTS.parent / f"{ALERTS.stem}.test.yaml").read_text())["tests"]
    raised = {test["alertname"] for case in cases for test in case["alert_rule_test"] if test["exp_alerts"]}
    assert raised == {rule["alert"] for rule in rules()}

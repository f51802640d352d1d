"""The benchmarks' tasks: processes of their own, which count all that they import, and fail with what they have printed."""

from __future__ import annotations

import pytest

from bench.task import Place, operate, run_task
from walferry.replication.source.cluster import SourceCluster

NOWHERE = SourceCluster(quorum="127.0.0.1:1", wal_root="file:///nowhere")
OPERATOR = "walferry.airflow.operators.ship_wals:ShipWalsOperator"


def test_a_task_counts_what_it_imports_unless_its_executor_has_imported_that_before(tmp_path):
    def ran(preload: str) -> float:
        fields, params = {"peer": "1", "plan": {"run_id": "r", "peer": "1"}}, {"deadline": 10}
        place = Place(preload=preload)
        return operate("replicate_peer", OPERATOR, fields, params, NOWHERE, "r", place, tmp_path / "log").process_cpu

    alone, preloaded = (min(ran(preload) for _ in range(3)) for preload in ("", "walferry.airflow.preload"))
    assert 0 < preloaded < alone
    assert (tmp_path / "log").read_text().count("nothing to ship") == 6


def test_a_task_that_fails_is_told_with_its_output(tmp_path):
    with pytest.raises(RuntimeError, match=r"a task of replicate_peer failed:\n(.|\n)*No module named .bench\.nothing"):
        run_task("replicate_peer", "bench.nothing:at_all", {}, NOWHERE, Place(), tmp_path / "log")

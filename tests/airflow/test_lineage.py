"""What an operator tells OpenLineage, over a ZooKeeper with HBase's znodes. There is no HMaster: tables are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.zk.hbase_znodes import HBaseZNodes
from walferry.airflow.operators import lineage as module
from walferry.airflow.operators.lineage import MOST_TABLES, lineage_of, namespace
from walferry.airflow.tasks.verification import VerifyPeerOperator
from walferry.engine.summary import GroupSummary, Status
from walferry.observe import complete_hours
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.shipping.runs import begin_run, write_group

from .recovery_stubs import hbase, new_client, refused_at_once

__all__ = ["hbase", "new_client", "refused_at_once"]  # fixtures

pytestmark = pytest.mark.usefixtures("refused_at_once")

PEER = "p"


@pytest.fixture
def source(tmp_path: Path, zookeeper: Any, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> SourceCluster:
    extra = {"wal_root": f"file://{tmp_path}", "znode_parent": hbase.nodes.base, "walferry_root": hbase.root}
    connection = {"conn_type": "generic", "host": zookeeper.quorum, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    monkeypatch.setattr(complete_hours, "tables_of", lambda source, peers: {PEER: ["shop:items", "orders"]})
    return module.HBaseSourceHook("hbase_source").get_conn()


def told(**job: Any) -> Any:
    return lineage_of(**{"source": "hbase_source", "peer": PEER, "tables": (), "run_id": "", "writes": True, **job})


def names(datasets: Any) -> list[str]:
    return [each.name for each in datasets]


def test_a_job_reads_the_tables_of_the_source_and_writes_those_of_the_peer_cluster(source: SourceCluster) -> None:
    found = told()
    assert names(found.inputs) == names(found.outputs) == ["default:orders", "shop:items"]
    assert {each.namespace for each in found.inputs} == {f"hbase://{source.quorum}{source.znode_parent}"}
    assert not {each.namespace for each in found.inputs} & {each.namespace for each in found.outputs}


def test_a_job_that_only_compares_writes_nothing(source: SourceCluster) -> None:
    found = told(writes=False, tables=("orders",))
    assert names(found.inputs) == ["default:orders"] * 2
    assert len({each.namespace for each in found.inputs}) == 2
    assert not found.outputs


def test_the_totals_are_those_of_all_wal_groups_of_the_run(source: SourceCluster) -> None:
    with open_session(source) as session:
        begin_run(session, PEER, "run", 3600)
        for number, ops in enumerate((3, 4)):
            write_group(session, PEER, "run", GroupSummary(group=f"g{number}", status=Status.DONE, shippedOps=ops))
    assert told(run_id="run").run_facets["walferry"].totals["shippedOps"] == 7
    assert told().run_facets["walferry"].totals == {}


def test_an_event_names_a_bounded_number_of_tables(source: SourceCluster) -> None:
    found = told(tables=tuple(f"t{n:05}" for n in range(MOST_TABLES + 5)))
    assert len(found.inputs) == len(found.outputs) == MOST_TABLES


def test_without_an_hmaster_the_figures_are_told_all_the_same(source: SourceCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise complete_hours.NothingValid("no active HMaster")

    monkeypatch.setattr(complete_hours, "tables_of", refuse)
    found = told()
    assert not found.inputs
    assert found.run_facets["walferry"].peer == PEER


def test_a_task_that_began_no_job_tells_nothing() -> None:
    found = VerifyPeerOperator(task_id="compare", peer=PEER).get_openlineage_facets_on_complete(None)
    assert not found.inputs
    assert not found.outputs
    assert not found.run_facets


@pytest.mark.parametrize("key", ["b,a:2181:/hbase", "a:2181,b:2181:2181:/hbase", "hbase+zk://b:2181,a:2181/hbase"])
def test_all_keys_of_a_cluster_are_one_namespace(key: str) -> None:
    assert namespace(key) == "hbase://a:2181,b:2181/hbase"

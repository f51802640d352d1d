"""docs/provider.md: its examples are DAG files and connections that work as it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

from embedded.zookeeper import ZooKeeperServer
from tests.doc_tables import page
from tests.zk.fixtures import hbase, new_client, zk
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.connection import from_env

from .conftest import load, run_sensor

__all__ = ["hbase", "new_client", "zk"]  # fixtures

BLOCKS = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", page("provider.md"))
DAG_FILES = {text.rstrip().splitlines()[-1].removesuffix("()"): text for language, text in BLOCKS if language == "python"}
COMMANDS = [shlex.split(text.replace("\\\n", "")) for language, text in BLOCKS if language == "sh"]
SOURCE = SourceCluster(quorum="zk1:2181,zk2:2181,zk3:2181", wal_root="hdfs://nn:8020/hbase", znode_parent="/hbase-secure")
ALONE = """
from airflow.sdk import dag
from walferry.airflow.tasks.verification import VerifyPeerOperator

@dag(schedule=None)
def alone():
    VerifyPeerOperator(task_id="compare", peer="2")

alone()
"""


@pytest.fixture(scope="module")
def examples(airflow_db: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The page's DAGs, as Airflow reads them from files."""
    return {name: load(tmp_path_factory.mktemp("dags") / f"{name}.py", text) for name, text in DAG_FILES.items()}


def test_each_class_for_your_own_dags_has_an_example() -> None:
    text = "\n".join(DAG_FILES.values())
    for name in ("NewWalsSensor", "DeadServersSensor", "StuckRegionsSensor", "NewWalsEventTrigger", "HBaseSourceHook"):
        assert f"{name}(" in text


def test_runs_that_an_example_starts_get_parameters_that_their_dag_has_and_takes(
    examples: dict[str, Any], dags: dict[str, Any]
) -> None:
    starting = [task for dag in examples.values() for task in dag.tasks if isinstance(task, TriggerDagRunOperator)]
    assert len(starting) == 2
    for task in starting:
        params = dags[task.trigger_dag_id].params
        assert task.conf.keys() <= params.keys()
        for name, value in task.conf.items():
            params.get_param(name).resolve(value=value)


def test_the_hook_s_example_counts_the_waiting_wals_of_each_peer(
    examples: dict[str, Any], hbase: HBaseZNodes, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    host, port = zookeeper.quorum.split(":")
    extra = {"znode_parent": hbase.nodes.base, "wal_root": tmp_path.as_uri(), "walferry_root": hbase.root}
    connection = {"conn_type": "hbase_source", "host": host, "port": int(port), "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(connection))
    for at in range(3):  # the last one is being written
        hbase.add_wal(SERVER, "p", wal(at))
    assert run_sensor(examples["count_waiting_wals"], "count", {}) == ("success", {"p": 2})


def test_the_connection_s_examples_are_one_and_the_same_source(monkeypatch: pytest.MonkeyPatch) -> None:
    by_environment = [words[1].partition("=") for words in COMMANDS if words[0] == "export"]
    assert len(by_environment) == 2
    for name, _, value in by_environment:
        monkeypatch.setenv(name, value)
        assert HBaseSourceHook().get_conn() == from_env() == SOURCE
    (command,) = (words for words in COMMANDS if words[0] == "airflow")
    args = get_parser().parse_args(command[1:])
    assert args.conn_id == HBaseSourceHook.default_conn_name
    fields = {"conn_type": args.conn_type, "host": args.conn_host, "port": int(args.conn_port), "extra": args.conn_extra}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(fields))
    assert HBaseSourceHook().get_conn() == SOURCE


def test_an_operator_in_a_dag_without_its_parameters_fails_and_says_what_to_do(
    airflow_db: None, tmp_path: Path, logged: Any
) -> None:
    assert run_sensor(load(tmp_path / "alone.py", ALONE), "compare", {})[0] == "failed"
    assert "Have your DAG start Walferry's DAG, by TriggerDagRunOperator" in logged()

"""The DAGs of several sources, as Airflow's DAG processor sees them, from the same files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from walferry.airflow.run_notes import DAGS

from .conftest import ENVIRON, REPO

WEST = {f"{dag_id}-west" for dag_id in DAGS}
WRONG = "hbase_source,zk1:2181,west,,west"
LOOK = f"""
import json, os
from airflow import settings
settings.initialize()
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

def seen(sources):
    os.environ.pop("AIRFLOW__WALFERRY__SOURCES", None)
    if sources is not None:
        os.environ["AIRFLOW__WALFERRY__SOURCES"] = sources
    bag = DagBag({str(REPO / "dags")!r})
    dags = {{}}
    for dag_id, dag in bag.dags.items():
        text = json.dumps(DagSerialization.to_dict(dag), sort_keys=True, default=str)
        source = dag.params.get_param("source_conn_id")
        dags[dag_id] = {{"source": [source.value, source.schema["enum"]], "tags": sorted(dag.tags), "text": text}}
    return {{"errors": bag.import_errors, "dags": dags}}

settings = [seen(sources) for sources in json.loads(os.environ["SOURCES"])]
os.environ["AIRFLOW__WALFERRY__SOURCES"] = "hbase_source,west"
from airflow.sdk.definitions._internal.dag_parsing_context import _airflow_parsing_context_manager
with _airflow_parsing_context_manager(dag_id="replicate_peer-west", task_id="peers"):
    of_task = sorted(DagBag({str(REPO / "dags" / "replicate_peer.py")!r}).dags)
print("RESULT" + json.dumps([settings, of_task]))
"""


SETTINGS = [None, "hbase_source,west", "west,hbase_source", WRONG, ""]


@pytest.fixture(scope="module")
def looked() -> tuple[list[Any], list[str]]:
    """What Airflow sees with each of these settings, and the DAGs that a task's process reads from its file."""
    environ = {**os.environ, **ENVIRON, "SOURCES": json.dumps(SETTINGS)}
    done = subprocess.run([sys.executable, "-c", LOOK], env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    settings, of_task = json.loads(done.stdout.rpartition("RESULT")[2])
    return settings, of_task


@pytest.fixture
def seen(looked: tuple[list[Any], list[str]]) -> dict[str | None, Any]:
    """What Airflow sees, by setting."""
    return dict(zip(SETTINGS, looked[0], strict=True))


def test_without_the_setting_there_are_the_dags_of_one_source(seen: dict[str | None, Any]) -> None:
    one = seen[None]
    assert one["errors"] == {}
    assert one["dags"].keys() == DAGS
    assert all(dag["source"] == ["hbase_source", ["hbase_source"]] for dag in one["dags"].values())


def test_a_second_source_gets_all_dags_and_the_first_one_s_stay_as_they_are(seen: dict[str | None, Any]) -> None:
    one, two = seen[None]["dags"], seen["hbase_source,west"]
    assert two["errors"] == {}
    assert two["dags"].keys() == DAGS | WEST
    assert {dag_id: two["dags"][dag_id] for dag_id in DAGS} == one
    for dag_id in DAGS:
        first, second = one[dag_id], two["dags"][f"{dag_id}-west"]
        assert second["source"] == ["west", ["west"]]
        assert {*first["tags"]} - {*second["tags"]} == {"hbase_source"}
        assert {*second["tags"]} - {*first["tags"]} == {"west"}


def test_a_source_s_dags_name_only_what_is_its_own(seen: dict[str | None, Any]) -> None:
    dags = seen["hbase_source,west"]["dags"]
    for dag_id in WEST:
        assert "hbase_source" not in dags[dag_id]["text"], dag_id
    for dag_id in DAGS:
        assert not re.search(r"\bwest\b", dags[dag_id]["text"]), dag_id
    started = [dags[dag_id]["text"] for dag_id in ("initial_snapshot", "initial_snapshot-west")]
    assert ['"replicate_peer"' in text for text in started] == [True, False]
    assert ['"replicate_peer-west"' in text for text in started] == [False, True]
    watched = [dags[dag_id]["text"] for dag_id in ("regionserver_failover", "regionserver_failover-west")]
    assert ['"hbase-dead-servers"' in text for text in watched] == [True, False]
    assert ['"hbase-dead-servers-west"' in text for text in watched] == [False, True]


def test_the_order_of_the_sources_changes_nothing(seen: dict[str | None, Any]) -> None:
    assert seen["west,hbase_source"] == seen["hbase_source,west"]


def test_a_wrong_name_is_an_import_error_that_leaves_the_others_their_dags(seen: dict[str | None, Any]) -> None:
    ((file, text),) = seen[WRONG]["errors"].items()
    assert file.endswith("sources.py")
    assert "option sources in section [walferry] of Airflow's configuration: 'zk1:2181' is not the id of a connection" in text
    for part in ("an empty name", "'west' twice", "The DAGs of hbase_source, west go on"):
        assert part in text
    assert seen[WRONG]["dags"] == seen["hbase_source,west"]["dags"]


def test_without_any_name_there_are_no_dags_and_the_import_error_says_so(seen: dict[str | None, Any]) -> None:
    assert seen[""]["dags"] == {}
    (text,) = seen[""]["errors"].values()
    assert "Until then there are no DAGs" in text


def test_the_process_of_a_task_makes_no_dags_of_other_sources(looked: tuple[list[Any], list[str]]) -> None:
    assert looked[1] == ["replicate_peer-west"]

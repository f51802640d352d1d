"""Text from outside that looks like a template stays text, wherever Airflow could take it for code."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import BaseOperator
from kazoo.client import KazooClient

import walferry.airflow
from tests.sessions import session_of
from tests.zk.hbase_znodes import SERVER, HBaseZNodes, wal
from walferry.airflow.hooks.spark import WalferrySubmitHook
from walferry.airflow.literal import LiteralFields
from walferry.airflow.sensors.base import PlainSensor
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.drains import Drain, note_drains

from .conftest import HOME, REPO, Run, load
from .recovery_stubs import Spark, at, dead, drain, failover, group, hbase, new_client, spark, states, zk
from .submitted_jobs import job_in
from .test_replicate_peer import Cluster, cluster

__all__ = ["at", "cluster", "dead", "drain", "failover", "hbase", "new_client", "spark", "zk"]  # fixtures

SECRET = "hunter2-of-slack"
TEMPLATE = "{{conn.slack.password}}{%if(1)%}run{%endif%}{#gone#}"  # znodes and HBase's names have no blanks
# No server or WAL has a hash in its name. What begins a raw block and never ends it cannot be rendered at all.
HOST = "{{conn.slack.password}}{%if(1)%}run{%endif%}{%raw,16020,1700000000008"
KEY = "{%if(1)%}key{%endif%}"  # Airflow masks the values of keys that name a password
NESTED = {"list": [TEMPLATE, [TEMPLATE]], "dict": {KEY: {"deep": [TEMPLATE]}}, "text": TEMPLATE}
PROBLEM = {**dict.fromkeys(("server", "queue", "group", "problem"), TEMPLATE), "of another version": NESTED}
DAG_FILE = f"""
from airflow.sdk import Param, dag, get_current_context, task_group
from walferry.airflow.literal import task
from walferry.airflow.operators.ship_wals import ShipWalsOperator
from walferry.airflow.sensors.dead_servers import DeadServersSensor
from walferry.airflow.sensors.new_wals import NewWalsSensor
from walferry.airflow.sensors.stuck_regions import StuckRegionsSensor

@dag(schedule=None, params={{"text": Param("", type="string"), "source_conn_id": "hbase_source", "deadline": 60,
                           "broken_wals": "stop", "sink": "configured", "hfiles_from": None, "master": "required"}})
def hostile():
    @task
    def outside():
        text = get_current_context()["params"]["text"]
        plan = {{"run_id": text, "peer": text, "groups": 1, "wals": 1, "bytes": 1, "problems": [{PROBLEM!r}]}}
        return [{{"peer": text, "plan": plan}}]

    @task
    def values():
        return [{NESTED!r}, [{NESTED!r}], {TEMPLATE!r}]

    @task(map_index_template="{{{{ task.op_kwargs['value'] }}}}")
    def mapped(value, whole):
        return [value, whole]

    @task
    def plain(first, second=None, third=None):
        return [first, second, third]

    @task
    def keywords():
        return [{{"value": v, "whole": v}} for v in ({NESTED!r}, [{NESTED!r}], {TEMPLATE!r})]

    @task_group
    def grouped(value):
        plain(value, [value], third={{"in": [value]}})

    everything = values()
    mapped.partial(whole=everything).expand(value=everything)
    mapped.override(task_id="by_kwargs").expand_kwargs(keywords())
    plain(everything, [everything, {TEMPLATE!r}], third={{"in": [everything]}})
    grouped.expand(value=everything)
    kwargs = outside()
    ship = ShipWalsOperator.partial(task_id="ship", recovery=True, map_index_template="{{{{ task.peer }}}}", retries=0)
    ship.expand_kwargs(kwargs)

    @task
    def peers():
        return [{{"peer": {TEMPLATE!r}, "key": {TEMPLATE!r}, "source_conn_id": {TEMPLATE!r}}}]

    @task
    def connections():
        return [{{"source_conn_id": {TEMPLATE!r}}}]

    NewWalsSensor.partial(task_id="new_wals", retries=0).expand_kwargs(peers())
    DeadServersSensor.partial(task_id="dead_servers", retries=0).expand_kwargs(connections())
    StuckRegionsSensor.partial(task_id="stuck_regions", retries=0).expand_kwargs(connections())

hostile()
"""


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that nothing here may read."""
    monkeypatch.setenv("AIRFLOW_CONN_SLACK", json.dumps({"conn_type": "http", "host": "slack", "password": SECRET}))


@pytest.fixture
def hostile(dead: HBaseZNodes) -> HBaseZNodes:
    """A dead server, a queue that HBase claimed from it, and their WALs, all with templates in their names."""
    dead.add_wal(HOST, "p", wal(1, HOST))
    dead.add_wal(SERVER, f"q-{HOST}", wal(2, HOST))
    return dead


def in_database(text: str) -> list[str]:
    """Return the tables of Airflow's database that contain the text."""
    with sqlite3.connect(HOME / "airflow.db") as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        return [name for name in tables if any(text in str(row) for row in db.execute(f'select * from "{name}"'))]


def in_znodes(znodes: HBaseZNodes, text: str) -> list[str]:
    return [path for path, value in znodes.everything().items() if text in path or text.encode() in value]


@pytest.mark.parametrize("dag", ["drain", "failover"])
def test_names_in_zookeeper_reach_the_job_as_they_are(
    dag: str, request: pytest.FixtureRequest, hostile: HBaseZNodes, spark: Spark, logged: Callable[[], str]
):
    ended: Run = request.getfixturevalue(dag)()
    assert ended.state == "success", ended.report
    shipped = dict(spark.shipped)
    assert group(HOST) in shipped["p"]
    assert group(HOST) in shipped["q"]
    assert states(ended, "drain") == {"p": "success", "q": "success"}
    assert f"{SERVER}/q-{HOST}" in {q["queue"] for q in ended.report["queues"]}
    assert states(ended, "claim")[HOST] == "success"
    assert {q["dead_server"] for q in ended.report["queues"]} >= {HOST}
    assert SECRET not in json.dumps(spark.commands)
    assert in_database(SECRET) == []
    assert in_znodes(hostile, SECRET) == []
    assert SECRET not in logged()


@pytest.mark.parametrize("params", [{}, {"peer": TEMPLATE}], ids=["managed", "from the form"])
def test_a_peer_s_name_reaches_the_job_as_it_is(
    replicate_peer: Callable[..., Run], cluster: Cluster, params: dict[str, str], logged: Callable[[], str]
):
    cluster.managed, cluster.unrolled = [TEMPLATE], {TEMPLATE: TEMPLATE}
    ended = replicate_peer(**params)
    assert set(ended.reports) == {TEMPLATE}
    assert ended.tasks["peer.ship", TEMPLATE] == ended.tasks["peer.plan", TEMPLATE] == "success"
    assert ended.reports[TEMPLATE]["failures"] == [f"roll of {TEMPLATE}: {TEMPLATE}"]
    (command,) = cluster.commands
    assert job_in(command).peer_id == TEMPLATE
    assert in_database(SECRET) == []
    assert SECRET not in logged()


def test_values_of_any_shape_reach_tasks_operators_and_sensors_as_they_are(
    airflow_db: None, tmp_path: Path, at: SourceCluster, zk: KazooClient, monkeypatch: pytest.MonkeyPatch,
    logged: Callable[[], str],
):  # fmt: skip
    drain = Drain(
        peer=TEMPLATE, server=SERVER, queue=TEMPLATE, dead_server=HOST, claimed_by="HBase", groups=(group(HOST),), wals=1,
        to_ship=(group(HOST),),
    )  # fmt: skip
    note_drains(session_of(zk, at), TEMPLATE, TEMPLATE, [drain])
    commands: list[list[str]] = []
    monkeypatch.setattr(WalferrySubmitHook, "submit", lambda hook, app="": commands.append(hook._build_spark_submit_command(app)))
    run_id = load(tmp_path / "hostile.py", DAG_FILE).test(run_conf={"text": TEMPLATE}).run_id
    returned, fields, labels = outcome(run_id)
    values = [NESTED, [NESTED], TEMPLATE]
    assert [returned["mapped", i] for i in range(3)] == [[value, values] for value in values]
    assert [returned["by_kwargs", i] for i in range(3)] == [[value, value] for value in values]
    assert returned["plain", -1] == [values, [values, TEMPLATE], {"in": [values]}]
    assert [returned["grouped.plain", i] for i in range(3)] == [[value, [value], {"in": [value]}] for value in values]
    (command,) = commands
    assert job_in(command).peer_id == TEMPLATE
    assert job_in(command).run_id == TEMPLATE
    assert job_in(command).recovery
    assert fields["ship"]["plan"]["problems"] == [PROBLEM]
    assert fields["new_wals"] == {"peer": TEMPLATE, "key": TEMPLATE, "source_conn_id": TEMPLATE}
    assert fields["dead_servers"] == fields["stuck_regions"] == {"source_conn_id": TEMPLATE}
    assert labels["ship"] == TEMPLATE
    assert in_database(SECRET) == []
    assert SECRET not in logged()


def outcome(run_id: str) -> tuple[dict[tuple[str, int], Any], dict[str, Any], dict[str, str]]:
    """Return the results of a run's tasks, by task and map index; their fields as Airflow shows them; and their labels."""
    from airflow.models.renderedtifields import RenderedTaskInstanceFields
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        xcoms = session.scalars(select(XComModel).where(XComModel.run_id == run_id, XComModel.key == "return_value")).all()
        fields = session.scalars(select(RenderedTaskInstanceFields).where(RenderedTaskInstanceFields.run_id == run_id)).all()
        instances = session.scalars(select(TaskInstance).where(TaskInstance.run_id == run_id)).all()
        return (
            {(x.task_id, x.map_index): XComModel.deserialize_value(x) for x in xcoms},
            {f.task_id: f.rendered_fields for f in fields},
            {ti.task_id: ti.rendered_map_index for ti in instances},
        )


def documented() -> tuple[dict[str, set[str]], set[str]]:
    """Return the lists of docs/security.md: fields by operator, and labels."""
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|", (REPO / "docs" / "security.md").read_text(), re.MULTILINE)
    fields = {name: set(re.findall(r"`(\w+)`", listed)) for name, listed in rows if name.isidentifier()}
    return fields, {name for name, _ in rows if "{{" in name}


def operators() -> dict[str, type]:
    """Return all operators and sensors that the plugins define."""
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(walferry.airflow.__path__, "walferry.airflow.")]
    return {
        name: kind
        for module in modules
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, BaseOperator) and kind.__module__ == module.__name__
    }


def test_every_templated_field_and_every_label_is_known_and_guarded(dags: dict[str, Any]):
    fields, labels = documented()
    found = {name: set(kind.template_fields) for name, kind in operators().items() if kind.template_fields}
    assert found == fields | {PlainSensor.__name__: {"source_conn_id"}}  # the base of the sensors
    assert [name for name, kind in operators().items() if not issubclass(kind, LiteralFields)] == []
    tasks = {f"{dag_id}.{task.task_id}": task for dag_id, dag in dags.items() for task in dag.tasks}
    kinds = {name: task.operator_class if task.is_mapped else type(task) for name, task in tasks.items()}
    assert {name for name, kind in kinds.items() if kind not in operators().values()} == set()
    assert {name for name, task in tasks.items() if set(task.template_fields) != fields.get(kinds[name].__name__, set())} == set()
    assert {task.map_index_template for task in tasks.values()} - {None} == labels
    assert [name for name, task in tasks.items() if getattr(task, "start_trigger_args", None)] == []
    links = {type(link).__module__ for task in tasks.values() for link in task.operator_extra_links}
    assert links == {"walferry.airflow.operators.links"}  # they quote names, and accept only web addresses
    assert [dag.dag_id for dag in dags.values() if dag.render_template_as_native_obj or dag.user_defined_macros] == []

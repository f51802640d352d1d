"""The DAG check_connections, run by Airflow over a ZooKeeper with HBase's znodes, and places that must contain no secrets."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException
from kazoo.client import KazooClient

from embedded.certificates import Authority
from tests.secret_search import leaked
from tests.unit.base.security.keytabs import KEY, keytab
from tests.unit.replication.sinks.hbase.test_replicate import closed_port
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.base.security.login import Kerberos
from walferry.runs.steps.batch import for_job
from walferry.shipping.ship_run import ShipRun

from .conftest import Run
from .recovery_stubs import hbase, new_client, refused_at_once
from .submitted_jobs import job_in

__all__ = ["hbase", "new_client", "refused_at_once"]  # fixtures
PASSWORD = b"correct horse battery staple"
TABLES = ("rendered_task_instance_fields", "xcom", "dag_run", "dag_run_note", "log")


@pytest.fixture
def login(tmp_path: Path) -> dict[str, Any]:
    """The fields of a login, and the files that they name. No KDC gives tickets for it."""
    authority = Authority(tmp_path / "authority")
    own = authority.certificate("walferry", "localhost")
    files = {"walferry.keytab": keytab("walferry@EAST"), "password": PASSWORD}
    for name, content in files.items():
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_bytes(content)
    return {
        "principal": "walferry@EAST", "keytab": str(tmp_path / "walferry.keytab"), "tls_ca": str(authority.pem),
        "tls_certificate": str(own.certificate), "tls_key": str(own.key), "tls_key_password_file": str(tmp_path / "password"),
        "zk_auth": "none",
    }  # fmt: skip


@pytest.fixture
def site(
    tmp_path: Path, zookeeper: Any, hbase: HBaseZNodes, login: dict[str, Any], monkeypatch: pytest.MonkeyPatch, airflow_db: None
) -> Iterator[HBaseZNodes]:
    """A source whose connection has a login, with a peer whose cluster has its own connection."""
    nobody = closed_port()
    krb5_conf = tmp_path / "krb5.conf"
    krb5_conf.write_text(
        "[libdefaults]\n  dns_lookup_kdc = false\n  udp_preference_limit = 1\n[realms]\n"
        f"  EAST = {{\n    kdc = 127.0.0.1:{nobody.port}\n  }}\n"
    )
    monkeypatch.setenv("KRB5_CONFIG", str(krb5_conf))
    extra = {"wal_root": f"file://{tmp_path}", "znode_parent": hbase.nodes.base, "walferry_root": hbase.root, **login}
    source = {"conn_type": "hbase_source", "host": zookeeper.quorum, "extra": extra}
    theirs = {**login, "principal": "walferry@WEST", "server_principals": "hbase/_HOST@WEST"}
    peer_cluster = {"conn_type": "hbase_source", "extra": theirs}
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", json.dumps(source))
    monkeypatch.setenv("AIRFLOW_CONN_WEST", json.dumps(peer_cluster))
    hbase.set_config("p", {"walferry.managed": "true", "walferry.peer_conn_id": "west"})
    return hbase


def secrets(login: dict[str, Any]) -> dict[str, bytes]:
    pem = Path(login["tls_key"]).read_bytes()
    return {"key of the keytab": KEY, "password": PASSWORD, "private key": pem.splitlines()[2], "keytab": keytab("walferry@EAST")}


def database() -> dict[str, str]:
    """Return what Airflow's database contains of runs, by table."""
    from airflow.utils.session import create_session
    from sqlalchemy import text

    with create_session() as session:
        return {table: repr(session.execute(text(f"select * from {table}")).all()) for table in TABLES}


def znodes(zk: KazooClient, path: str) -> Iterator[tuple[str, bytes]]:
    yield path, zk.get(path)[0]
    for name in zk.get_children(path):
        yield from znodes(zk, f"{path}/{name}")


def test_a_run_tells_each_look_fails_with_what_is_wrong_and_tells_no_secret(
    site: HBaseZNodes,
    login: dict[str, Any],
    run_dag: Callable[..., Run],
    logged: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token = "a-token-that-nobody-may-read"
    connect = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1, "password": token}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_CONNECT", json.dumps(connect))
    ended = run_dag("check_connections", peer="p")
    log = logged()
    assert (ended.state, ended.tasks["check", None], ended.tries["check", None]) == ("failed", "failed", 1)
    assert f"source: keytab: {login['keytab']} holds a key of walferry@EAST: version 1" in log
    assert "source: ticket: no ticket for walferry@EAST" in log
    assert f"source: TLS: authorities of {login['tls_ca']}" in log
    assert f"cluster of peer p: keytab: keytab {login['keytab']} holds no key of walferry@WEST" in log
    assert "It holds keys of: walferry@EAST" in log
    assert "own root: " in log
    assert "Spark Connect: Spark Connect server 127.0.0.1:1: " in log
    assert "Traceback" not in log
    places = {"log": log, **database(), **dict(znodes(site.zk, site.root))}
    assert leaked({**secrets(login), "token": token.encode()}, places) == []


def test_a_job_s_arguments_settings_and_environment_have_names_of_files_and_no_secret(
    site: HBaseZNodes, login: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: Callable[[], str]
) -> None:
    script = tmp_path / "spark-submit"
    script.write_text(f'#!/bin/bash\nprintf "%s\\n" "$@" > {tmp_path}/arguments; env > {tmp_path}/environment; exit 1\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("WALFERRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "yarn"}')
    source = for_job(HBaseSourceHook().get_conn(), "p")
    with pytest.raises(AirflowException):
        SparkJobOperator(task_id="job").submit({}, ShipRun(source=source, peer_id="p", run_id="r", deadline=60))
    arguments = (tmp_path / "arguments").read_text()
    assert f"spark.executorEnv.KRB5_CONFIG={tmp_path / 'krb5.conf'}" in arguments.splitlines()
    given = job_in(arguments.splitlines()).source
    kerberos = given.login_at("127.0.0.1:2181:/peer_cluster", "west").kerberos
    assert kerberos == Kerberos(principal="walferry@WEST", keytab=login["keytab"], servers=("hbase/_HOST@WEST",), only_hosts=True)
    environment = (tmp_path / "environment").read_text()
    places = {"arguments": arguments, "environment": environment, "log": logged(), "shown": repr(given)}
    assert leaked(secrets(login), places) == []

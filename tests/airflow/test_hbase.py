"""Connections of HBase clusters, read through Airflow."""

import json

import pytest

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.base.security.login import Kerberos
from walferry.cli.source import Chosen
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.connection import from_env
from walferry.runs.airflow_connection import from_airflow

SOURCE = SourceCluster(quorum="zk1:2182,zk2:2182", wal_root="hdfs://nn:8020/hbase", znode_parent="/hbase-secure")


@pytest.mark.parametrize(
    "value",
    [
        '{"conn_type": "generic", "host": "zk1,zk2", "port": 2182,'
        ' "extra": {"wal_root": "hdfs://nn:8020/hbase", "znode_parent": "/hbase-secure"}}',
        '{"conn_type": "generic", "host": "zk1:2182,zk2:2182",'
        ' "extra": "{\\"wal_root\\": \\"hdfs://nn:8020/hbase\\", \\"znode_parent\\": \\"/hbase-secure\\"}"}',
        "generic://zk1,zk2:2182/?wal_root=hdfs%3A%2F%2Fnn%3A8020%2Fhbase&znode_parent=%2Fhbase-secure",
        "generic://zk1%3A2182%2Czk2%3A2182/?wal_root=hdfs%3A%2F%2Fnn%3A8020%2Fhbase&znode_parent=%2Fhbase-secure",
    ],
)
def test_the_connection_may_come_from_the_environment_as_json_or_uri(monkeypatch, value):
    monkeypatch.setenv("AIRFLOW_CONN_HBASE_SOURCE", value)
    assert HBaseSourceHook().get_conn() == SOURCE
    assert from_env() == SOURCE


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ('{"conn_type": "generic", "host": "zk1"}', "wal_root"),
        ('{"conn_type": "generic", "extra": {"wal_root": "file:///hbase"}}', "host is empty"),
        ('{"conn_type": "generic", "host": "zk1", "extra": "{broken"}', "JSON"),
        ('{"conn_type": "generic", "host": "zk1", "extra": {"wal_root": "file:///h", "znode_parent": "hbase"}}', "znode_parent"),
    ],
)
def test_a_wrong_field_is_named(monkeypatch, value, field):
    monkeypatch.setenv("AIRFLOW_CONN_EAST", value)
    with pytest.raises(SourceError, match=f"(?s)'east'.*{field}"):
        HBaseSourceHook("east").get_conn()


def test_a_key_provider_is_taken_and_a_password_beside_it_is_refused_unseen(monkeypatch):
    extra = {"wal_root": "file:///hbase", "key_provider": "jceks:///k?passwordEnv=STORE", "key_names": ["wal"]}
    monkeypatch.setenv("AIRFLOW_CONN_EAST", json.dumps({"conn_type": "generic", "host": "zk1", "extra": extra}))
    source = HBaseSourceHook("east").get_conn()
    assert (source.key_provider, source.key_names) == ("jceks:///k?passwordEnv=STORE", ("wal",))
    secret = {"conn_type": "generic", "host": "zk1", "password": "hunter2", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_EAST", json.dumps(secret))
    with pytest.raises(SourceError, match="connection 'east': it has a password, which cannot reach the Spark tasks unseen") as e:
        HBaseSourceHook("east").get_conn()
    assert "hunter2" not in str(e.value)


def test_a_peer_cluster_s_connection_is_read_when_it_is_needed(monkeypatch, airflow_db):
    login = {"principal": "walferry@PEER", "keytab": "/k/peer_cluster"}
    peer_clusters = {"zk9:2181:/hbase": "peer_cluster", "zk8:2181:/hbase": "mail", "zk7:2181:/hbase": "nowhere"}
    extra = {"wal_root": "file:///hbase", "principal": "walferry@SOURCE", "keytab": "/k/source", "peer_clusters": peer_clusters}
    monkeypatch.setenv("AIRFLOW_CONN_EAST", json.dumps({"conn_type": "hbase_source", "host": "zk1", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_PEER_CLUSTER", json.dumps({"conn_type": "hbase_source", "host": "zk9", "extra": login}))
    monkeypatch.setenv("AIRFLOW_CONN_MAIL", json.dumps({"conn_type": "smtp", "password": "hunter2", "extra": {"a": 1}}))
    for source in (HBaseSourceHook("east").get_conn(), Chosen(conn_id="east").read()):
        assert source.login_at("zk9:2181:/hbase", None).kerberos == Kerberos(**login, hosts=("zk9",), only_hosts=True)
        ours = Kerberos(principal="walferry@SOURCE", keytab="/k/source", only_hosts=True)
        assert source.login_at("zk6:2181:/hbase", None).kerberos == ours
        with pytest.raises(SourceError, match="connection 'mail' is not that of an HBase cluster: its type must be"):
            source.login_at("zk8:2181:/hbase", None)
        with pytest.raises(SourceError, match=r"connection 'nowhere' is not defined.*AIRFLOW_CONN_NOWHERE"):
            source.login_at("zk7:2181:/hbase", None)


@pytest.mark.parametrize(
    "connection",
    [
        {"conn_type": "slackwebhook", "host": "hooks.slack.com/services/T0/B0/SECRET"},
        {"conn_type": "aws", "extra": {"aws_secret_access_key": "SECRET"}},
        {"conn_type": "generic", "host": "SECRET/", "extra": {"SECRET": "x"}},
        {"conn_type": "http", "extra": "SECRET"},
    ],
)
@pytest.mark.parametrize("read", [lambda: HBaseSourceHook("other").get_conn(), lambda: from_airflow("other")])
def test_nothing_is_told_of_a_connection_that_a_form_names_and_that_is_not_one_of_hbase(
    monkeypatch, airflow_db, caplog, connection, read
):
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(connection))
    reported = r"connection 'other'(: not a connection, as it is not JSON| is not that of an HBase cluster)"
    with pytest.raises(SourceError, match=reported) as error:
        read()
    assert "SECRET" not in f"{error.value} {caplog.text}"


@pytest.mark.parametrize("conn_id", ["../airflow/smtp", "a b", "", "x" * 1000])
@pytest.mark.parametrize("read", [lambda conn_id: HBaseSourceHook(conn_id).get_conn(), from_airflow])
def test_what_a_form_gives_is_not_looked_up_if_it_cannot_be_an_id(monkeypatch, conn_id, read):
    monkeypatch.setattr(HBaseSourceHook, "get_connection", lambda _: pytest.fail("it was looked up"))
    with pytest.raises(SourceError, match="is not a connection's id") as error:
        read(conn_id)
    assert len(str(error.value)) < 500


def test_a_missing_connection_is_told_with_what_to_do(airflow_db):
    with pytest.raises(SourceError, match=r"'nowhere' is not defined.*AIRFLOW_CONN_NOWHERE"):
        HBaseSourceHook("nowhere").get_conn()

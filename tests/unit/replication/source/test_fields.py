"""A connection is taken apart from JSON or a URI, its host and port are checked, and nothing that may be secret is repeated."""

import json

import pytest

from walferry.replication.source.cluster import SourceError
from walferry.replication.source.connection import from_connection, from_env, from_text

EXTRA = {"wal_root": "hdfs://nn:8020/hbase"}


def test_hosts_without_a_port_get_the_connection_s_port():
    assert from_connection("zk1,zk2:2182", 2183, EXTRA).quorum == "zk1:2183,zk2:2182"


@pytest.mark.parametrize(
    "fields",
    [
        {"conn_type": "slackwebhook", "host": "hooks.slack.com/services/T0/B0/SECRET"},
        {"conn_type": "http", "host": "internal.example/api?key=SECRET"},
        {"conn_type": "aws", "host": "SECRET", "extra": {"SECRET": "SECRET", "wal_root": "SECRET"}},
        {"conn_type": "postgres", "host": "SECRET", "port": "SECRET"},
        {"conn_type": "generic", "host": "SECRET/x", "extra": {"token": "SECRET"}},
        {"host": "SECRET", "extra": {}},
        {"conn_type": ["generic"], "host": "SECRET", "extra": {"wal_root": "file:///h"}},
    ],
)
def test_nothing_is_told_of_a_connection_that_is_not_one_of_hbase(fields):
    """Whoever may trigger a run may name any connection as its source, and see the error."""
    with pytest.raises(SourceError, match=r"^connection 'c' is not that of an HBase cluster: its type must be hbase_source") as e:
        from_text(json.dumps(fields), "c")
    assert "SECRET" not in str(e.value)


@pytest.mark.parametrize("conn_type", ["hbase_source", "hbase", "generic", "", None])
def test_a_connection_of_hbase_is_one_by_its_type_or_by_its_wal_root(conn_type):
    text = json.dumps({"conn_type": conn_type, "host": "zk1", "extra": {"wal_root": "file:///hbase"}})
    assert from_text(text, "c").wal_root == "file:///hbase"


def test_a_uri_that_cannot_be_split_is_refused_without_repeating_it():
    with pytest.raises(SourceError, match="connection 'prod'") as e:
        from_text("generic://u:hunter2@[zk1?wal_root=file:///h", "prod")
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize("between", ["/", "#", "?"])
@pytest.mark.parametrize("password", ["hunter2", "2181"])
def test_a_uri_whose_password_is_not_encoded_is_refused_without_repeating_it(between, password):
    with pytest.raises(SourceError, match=r"connection 'prod': .* percent-encoded") as e:
        from_text(f"generic://u:{password}{between}x{password}@zk1:2181/?wal_root=hdfs%3A%2F%2Fnn%2Fhbase", "prod")
    assert password not in str(e.value)


@pytest.mark.parametrize("uri", ["generic://u:hunter2\u2100@zk1/", "generic://[hunter2]@zk1/"])
def test_what_python_says_of_a_uri_is_not_repeated(uri):
    with pytest.raises(SourceError, match="connection 'prod'") as e:
        from_text(uri, "prod")
    assert "hunter2" not in str(e.value)
    assert e.value.__cause__ is None


@pytest.mark.parametrize("host", ["u:hunter2@zk1", "zk1,hunter2@zk2", "u:hunter2"])
def test_a_host_that_may_hold_a_password_is_not_repeated(host):
    with pytest.raises(SourceError, match=r"connection 'prod': host has .* which is neither a host nor host:port") as e:
        from_connection(host, 2181, EXTRA, "prod")
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"conn_type": "generic", "host": "zk1", "port": 2181, "extra": EXTRA}),
        json.dumps({"conn_type": "generic", "host": "zk1", "port": 2181, "extra": json.dumps(EXTRA)}),
        "generic://zk1:2181/?wal_root=hdfs%3A%2F%2Fnn%3A8020%2Fhbase",
        "generic://zk1:2181/?__extra__=%7B%22wal_root%22%3A%20%22hdfs%3A%2F%2Fnn%3A8020%2Fhbase%22%7D",
    ],
)
def test_the_environment_may_hold_json_or_a_uri(text):
    source = from_env(environ={"AIRFLOW_CONN_HBASE_SOURCE": text})
    assert (source.quorum, source.wal_root) == ("zk1:2181", "hdfs://nn:8020/hbase")


@pytest.mark.parametrize(
    ("hosts", "quorum"),
    [
        ("zk1,zk2:2182", "zk1:2182,zk2:2182"),
        ("zk1%3A2181%2Czk2%3A2182", "zk1:2181,zk2:2182"),
        ("zk1:2182,zk2", "zk1:2182,zk2:2181"),
        ("[::1]:2182", "[::1]:2182"),
        ("[::1]", "[::1]:2181"),
    ],
)
def test_the_port_at_a_uri_s_end_is_that_of_all_hosts_without_one(hosts, quorum):
    assert from_text(f"generic://{hosts}/?wal_root=file%3A%2F%2F%2Fhbase").quorum == quorum


@pytest.mark.parametrize("text", ["{", '{"host": "zk1", "extra": []}', '{"host": "zk1", "extra": "nonsense"}'])
def test_broken_json_names_the_connection(text):
    with pytest.raises(SourceError, match="connection 'prod'"):
        from_text(text, "prod")


def test_a_port_beyond_all_numbers_is_refused():
    with pytest.raises(SourceError, match="the number inf"):
        from_text('{"host": "zk", "port": 1e999, "extra": {"wal_root": "file:///hbase"}}')


def test_an_unknown_field_s_name_is_quoted_and_cut():
    with pytest.raises(SourceError) as error:
        from_connection("zk", None, {"wal_root": "file:///hbase", "x\nFAILED" + "y" * 100_000: 1})
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 3000

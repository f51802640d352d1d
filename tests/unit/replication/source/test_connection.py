"""The source connection is checked field by field."""

import json
import re
from pathlib import Path

import pytest

from walferry.hbase.files.logins import HDFS_SCHEMES
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.connection import KNOWN_EXTRAS, WAL_SCHEMES, from_connection, from_env, from_text

EXTRA = {"wal_root": "hdfs://nn:8020/hbase"}


def test_defaults_are_those_of_hbase():
    source = from_connection("zk1", None, EXTRA)
    assert (source.quorum, source.znode_parent, source.root, source.login.user) == ("zk1:2181", "/hbase", "/walferry", None)


def test_it_survives_the_way_to_a_spark_job():
    extra = {**EXTRA, "znode_parent": "/hbase-secure", "user": "etl", "queue_layout": "classic"}
    source = from_connection("zk1", 2181, extra)
    assert SourceCluster.from_json(source.to_json()) == source
    assert SourceCluster.from_json(source.to_json()).nodes == ZNodes("/hbase-secure", QueueLayout.CLASSIC)


@pytest.mark.parametrize(
    "login", [{"kerberos": {"protection": "none"}}, {"tls": {}}, {"zookeeper": {"auth": "magic"}}, {"kerberos": {"key": "k"}}]
)
def test_what_is_no_login_does_not_come_through(login):
    values = json.loads(from_connection("zk1", None, EXTRA).to_json())
    with pytest.raises(SourceError, match=r"is not the JSON that SourceCluster\.to_json writes: "):
        SourceCluster.from_json(json.dumps(values | {"login": values["login"] | login}))


@pytest.mark.parametrize(("flag", "skips"), [(True, True), (False, False), ("true", True), ("false", False)])
def test_what_bulk_loads_need_is_optional(flag, skips):
    source = from_connection("zk1", None, EXTRA)
    assert (source.replication_cluster_id, source.root_dir, source.skip_bulk_loads) == (None, None, False)
    extra = {**EXTRA, "replication_cluster_id": "east", "root_dir": "hdfs://nn/hbase/", "skip_bulk_loads": flag}
    source = from_connection("zk1", None, extra)
    assert (source.replication_cluster_id, source.root_dir, source.skip_bulk_loads) == ("east", "hdfs://nn/hbase", skips)
    assert SourceCluster.from_json(source.to_json()) == source


def test_shipped_wals_are_archived_only_if_a_folder_is_named():
    source = from_connection("zk1", None, EXTRA)
    assert (source.archive, source.archive_days) == (None, 30)
    source = from_connection("zk1", None, {**EXTRA, "archive": "s3a://bucket/wals/", "archive_days": "7.5"})
    assert (source.archive, source.archive_days) == ("s3a://bucket/wals", 7.5)
    assert SourceCluster.from_json(source.to_json()) == source


@pytest.mark.parametrize("policy", ["refuse", "strings", "ship"])
def test_cells_with_labels_are_refused_unless_it_says_otherwise(policy):
    assert from_connection("zk1", None, EXTRA).visibility_labels == "refuse"
    source = from_connection("zk1", None, {**EXTRA, "visibility_labels": policy})
    assert source.visibility_labels == policy
    assert SourceCluster.from_json(source.to_json()) == source


@pytest.mark.parametrize(
    ("host", "port", "extra", "field"),
    [
        (None, 2181, EXTRA, "host is empty"),
        ("zk 1", 2181, EXTRA, "host has 'zk 1'"),
        ("zk1", 70000, EXTRA, "port is 70000"),
        ("zk1:0", None, EXTRA, "port is"),
        ("zk1", 2181, {}, "wal_root"),
        ("zk1", 2181, {"wal_root": "/hbase"}, "wal_root is '/hbase'"),
        ("zk1", 2181, {"wal_root": "hdfs://user:pass@nn/hbase"}, "wal_root holds a password"),
        ("zk1", 2181, {"wal_root": "hdfs://nn:99999/hbase"}, "wal_root is 'hdfs://nn:99999/hbase'; it must be"),
        ("zk1", 2181, {"wal_root": "hdfs://[nn/hbase"}, "wal_root is 'hdfs://[nn/hbase'; it must be"),
        (5, 2181, EXTRA, "host is 5"),
        ("zk1", 2181, {**EXTRA, "znode_parent": "hbase"}, "znode_parent is 'hbase'"),
        ("zk1", 2181, {**EXTRA, "walferry_root": "/"}, "walferry_root is '/'"),
        ("zk1", 2181, {**EXTRA, "user": ""}, "user is ''"),
        ("zk1", 2181, {**EXTRA, "queue_layout": "3.x", "peers_root": "hdfs://nn/peers"}, "peers_root, and queue_layout is 3.x"),
        ("zk1", 2181, {**EXTRA, "queue_layout": "4.x"}, "queue_layout is '4.x'; it must be one of '2.x', 'classic'"),
        ("zk1", 2181, {**EXTRA, "znode_root": "/hbase"}, "extra has znode_root"),
        ("zk1", 2181, {**EXTRA, "replication_cluster_id": "a/b"}, "replication_cluster_id is 'a/b'; it must be the source's"),
        ("zk1", 2181, {**EXTRA, "replication_cluster_id": ""}, "replication_cluster_id is ''"),
        ("zk1", 2181, {**EXTRA, "root_dir": "/hbase"}, "root_dir is '/hbase'; it must be the URL of hbase.rootdir"),
        ("zk1", 2181, {**EXTRA, "root_dir": "s3://user:pass@bucket/hbase"}, "root_dir holds a password"),
        ("zk1", 2181, {**EXTRA, "peers_root": "/hbase/peers"}, "peers_root is '/hbase/peers'; it must be the URL of the folder"),
        ("zk1", 2181, {**EXTRA, "peers_root": "s3a://bucket/peers"}, "on s3a:// times may be too coarse"),
        ("zk1", 2181, {**EXTRA, "archive": "hdfs://nn:8020/hbase/oldWALs"}, "lies in wal_root, where HBase looks"),
        ("zk1", 2181, {"wal_root": "hdfs:///hbase", "archive": "hdfs://nn:8020/hbase/x"}, "lies in wal_root, where HBase looks"),
        ("zk1", 2181, {"wal_root": "hdfs://nn/hbase", "archive": "hdfs:///hbase/x"}, "lies in wal_root, where HBase looks"),
        ("zk1", 2181, {"wal_root": "file:/hbase", "archive": "file:///hbase/"}, "archive 'file:///hbase' lies in wal_root"),
        ("zk1", 2181, {**EXTRA, "archive_days": 0}, "archive_days is '0'; it must be a number of days"),
        ("zk1", 2181, {**EXTRA, "archive_days": "nan"}, "archive_days is 'nan'; it must be a number of days"),
        ("zk1", 2181, {**EXTRA, "visibility_labels": True}, "visibility_labels is True; it must be one of 'refuse', 'strings'"),
        ("zk1", 2181, {**EXTRA, "skip_bulk_loads": "yes"}, "skip_bulk_loads is 'yes'; it must be true or false"),
    ],
)
def test_an_error_names_the_connection_and_the_field(host, port, extra, field):
    with pytest.raises(SourceError, match="connection 'prod'") as e:
        from_connection(host, port, extra, "prod")
    assert field in str(e.value)


@pytest.mark.parametrize(
    "url", ["hdfs://u:hunter2@nn", "s3://u:hunter2@b", "hdfs://u:hunter2@nn:99999/h", "hdfs://u:hunter2@[nn/h"]
)
@pytest.mark.parametrize("field", ["wal_root", "quarantine", "archive", "root_dir", "peers_root"])
def test_a_password_in_a_url_is_not_repeated_whatever_else_is_wrong_with_it(field, url):
    with pytest.raises(SourceError, match=field) as e:
        from_connection("zk1", None, {**EXTRA, field: url}, "prod")
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "zk1/SECRET"},
        {"host": "zk1?key=SECRET"},
        {"host": "x" * 200 + " SECRET"},
        {"host": {"SECRET": 1}},
        {"port": "SECRET"},
        {"port": "12SECRET"},
        {"extra": {"wal_root": "s3a://bucket?AWSAccessKeyId=AK&Signature=SECRET"}},
        {"extra": {"wal_root": "s3a://SECRET@bucket/hbase"}},
        {"extra": {"wal_root": "SECRET" * 100}},
        {"extra": {"wal_root": "file:///h", "archive": "s3a://bucket/archive?Signature=SECRET"}},
        {"extra": {"wal_root": "file:///h", "quarantine": "gs://bucket/q#SECRET"}},
    ],
)
def test_what_may_be_a_secret_in_a_connection_of_hbase_is_not_repeated(fields):
    text = json.dumps({"conn_type": "hbase_source", "host": "zk1", "extra": {"wal_root": "file:///h"}} | fields)
    with pytest.raises(SourceError, match=r"^connection 'c': ") as e:
        from_text(text, "c")
    assert "SECRET" not in str(e.value)


def test_a_key_provider_and_its_names_survive_the_way_to_a_spark_job():
    extra = {**EXTRA, "key_provider": "jceks:///etc/k?passwordFile=/etc/p", "key_names": ["wal", "hbase"]}
    source = from_connection("zk1", 2181, extra)
    assert SourceCluster.from_json(source.to_json()) == source
    assert source.key_names == ("wal", "hbase")
    assert repr(source.keys()) == "KeyProvider('/etc/k', names=('wal', 'hbase'))"
    assert from_connection("zk1", 2181, {**extra, "key_names": "wal, hbase"}) == source
    assert from_connection("zk1", 2181, EXTRA).keys() is None


def test_a_password_of_a_key_store_is_refused_wherever_it_is_and_not_repeated():
    plain = {**EXTRA, "key_provider": "jceks:///etc/k?passwordFile=/etc/p"}
    as_json = json.dumps({"host": "zk1", "password": "hunter2", "extra": plain})
    as_uri = "generic://:hunter2@zk1/?wal_root=file%3A%2F%2F%2Fh&key_provider=jceks%3A%2F%2F%2Fk%3FpasswordEnv%3DP"
    for text in (as_json, as_uri):
        with pytest.raises(SourceError, match="connection 'prod': it has a password, which cannot reach") as e:
            from_text(text, "prod")
        assert "hunter2" not in str(e.value)
    with pytest.raises(SourceError, match="connection 'prod': extra's key_provider: the key provider holds a password") as e:
        from_connection("zk1", None, {**EXTRA, "key_provider": "jceks:///k?password=hunter2"}, "prod")
    assert "hunter2" not in str(e.value)
    assert e.value.__cause__ is None


@pytest.mark.parametrize("names", [5, [5], [""], {"a": 1}])
def test_key_names_are_a_list(names):
    with pytest.raises(SourceError, match="key_names is"):
        from_connection("zk1", None, {**EXTRA, "key_names": names})


@pytest.mark.parametrize("scheme", ["s3", "hdfs"])
def test_a_password_is_not_repeated_in_the_error(scheme):
    with pytest.raises(SourceError) as e:
        from_connection("zk1", 2181, {"wal_root": f"{scheme}://user:hunter2@bucket/hbase"})
    assert "hunter2" not in str(e.value)


@pytest.mark.parametrize(
    "root", ["hdfs://nn:8020/hbase", "hdfs://nameservice/hbase", "viewfs://cluster/hbase", "file:///hbase", "file:/hbase"]
)
def test_wals_are_read_where_the_length_of_a_dead_server_s_file_can_be_made_final(root):
    assert from_connection("zk1", None, {"wal_root": root}).wal_root == root


@pytest.mark.parametrize(
    "scheme",
    ["webhdfs", "swebhdfs", "httpfs", "s3", "s3a", "gs", "abfs", "abfss", "wasb", "adl", "oss", "ofs", "o3fs", "har", "memory",
     "http", "local", "nonsense"],
)  # fmt: skip
def test_wals_on_a_file_system_that_cannot_say_whether_a_length_is_final_are_refused(scheme):
    """There the stale length of a file that its dead server never closed would pass for its end: edits would be lost."""
    with pytest.raises(SourceError) as e:
        from_connection("zk1", 2181, {"wal_root": f"{scheme}://host/hbase"}, "prod")
    said = str(e.value)
    assert f"connection 'prod': extra's wal_root is '{scheme}://host/hbase'" in said
    assert f"on {scheme}:// Walferry cannot find out whether the length of a WAL that its server never closed is final" in said
    assert "file://, hdfs:// and viewfs://" in said


def test_folders_without_wals_may_lie_on_other_file_systems():
    extra = {**EXTRA, "quarantine": "s3a://bucket/broken", "root_dir": "webhdfs://nn:9870/hbase"}
    source = from_connection("zk1", 2181, extra)
    assert (source.quarantine, source.root_dir) == ("s3a://bucket/broken", "webhdfs://nn:9870/hbase")


def test_the_folder_of_the_peers_is_kept_without_its_last_slash():
    assert from_connection("zk1", 2181, EXTRA).peers_root is None
    source = from_connection("zk1", 2181, {**EXTRA, "peers_root": "hdfs://nn:8020/hbase/peers/"})
    assert source.peers_root == "hdfs://nn:8020/hbase/peers"
    assert SourceCluster.from_json(source.to_json()) == source


def test_the_connection_allows_what_the_store_can_ask():
    assert set(WAL_SCHEMES) == {"file", *HDFS_SCHEMES}


def test_a_missing_variable_is_named():
    with pytest.raises(SourceError, match="AIRFLOW_CONN_PROD is not set"):
        from_env("prod", {})


@pytest.mark.parametrize("field", ["znode_parent", "walferry_root"])
@pytest.mark.parametrize("path", ["/a/../b", "/./b", "/b/.", "/b\n", "/b\x1b[31m", "/b\x07"])
def test_a_path_that_zookeeper_cannot_have_is_refused(field, path):
    with pytest.raises(SourceError, match=f"extra's {field} is ") as error:
        from_connection("zk", None, {"wal_root": "file:///hbase", field: path})
    assert str(error.value).isprintable()


def test_the_documentation_has_each_field_of_the_connection():
    docs = (Path(__file__).resolve().parents[4] / "docs/connect.md").read_text()
    rows = re.findall(r"(?m)^\| extra (.*?) \|", docs)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(KNOWN_EXTRAS)

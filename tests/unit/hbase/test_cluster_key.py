"""Cluster keys are read as HBase reads them, and other texts are refused."""

import re

import pytest

from walferry.hbase.cluster_key import parse_cluster_key


@pytest.mark.parametrize(
    ("key", "connect_string", "parent"),
    [
        ("h1,h2,h3:2181:/hbase", "h1:2181,h2:2181,h3:2181", "/hbase"),
        ("h1:2182,h2:2183:2181:/a/b", "h1:2182,h2:2183", "/a/b"),
        ("h1:2182,h2:2181:/hbase", "h1:2182,h2:2181", "/hbase"),
        ("localhost:28103:/hbase", "localhost:28103", "/hbase"),
    ],
)
def test_cluster_keys_are_read_as_hbase_reads_them(key: str, connect_string: str, parent: str) -> None:
    parsed = parse_cluster_key(key)
    assert (parsed.connect_string, parsed.znode_parent) == (connect_string, parent)
    assert str(parsed) == key


@pytest.mark.parametrize(
    ("key", "same"),
    [
        ("h1, h2 ,\th3:2181:/hbase", "h1,h2,h3:2181:/hbase"),
        (" h1:2182,\n h2:2183:2181:/hbase", "h1:2182,h2:2183:2181:/hbase"),
        (",h1,,h2,:2181:/hbase", "h1,h2:2181:/hbase"),
        ("h1:2182,h2,:2181:/hbase", "h1:2182,h2:2181:/hbase"),
    ],
)
def test_blanks_and_commas_that_hbase_passes_over_make_no_other_cluster(key: str, same: str) -> None:
    assert parse_cluster_key(key) == parse_cluster_key(same)
    assert str(parse_cluster_key(key)) == same


@pytest.mark.parametrize(
    "key",
    ["", "h1", "h1:2181", "h1:2181:hbase", "h1:2181:/", "h1:0:/hbase", "h1:65536:/hbase", "h1:x:/hbase", ",h1:2182:2181:/hbase",
     "h1:2182,,h2:2181:/hbase", "h1, ,h2:2181:/hbase", ",:2181:/hbase", "h1\u00a0,h2:2181:/hbase", "h1:2182 ,h2:21 81:/hbase",
     "hbase+rpc://h1:16000", "h1 h2:2181:/hbase",
     "h1:65536,h2:2181:/hbase", "h1:0,h2:2181:/hbase", "h1/x:2181:/hbase", "u@h1:2181:/hbase", "[h1:2181:/hbase",
     "h1:2181:/hbase\n", "h1:2181:/h\rFAILED", "h1:2181:/h\x1b[31m", "h1:2181:/a/../b", "h1:2181:/./b"],
)  # fmt: skip
def test_what_is_no_cluster_key_is_refused_with_the_form_it_should_have(key: str) -> None:
    with pytest.raises(ValueError, match=f"^cluster key {re.escape(repr(key))}: .*zookeeper.znode.parent$"):
        parse_cluster_key(key)


@pytest.mark.parametrize(
    ("uri", "connect_string", "parent"),
    [
        ("hbase+zk://zk1:2181,zk2:2182/hbase", "zk1:2181,zk2:2182", "/hbase"),
        ("HBASE+ZK://zk1:2181/hbase/secure", "zk1:2181", "/hbase/secure"),
    ],
)
def test_a_uri_of_hbase_3_names_the_same_ensemble(uri: str, connect_string: str, parent: str) -> None:
    key = parse_cluster_key(uri)
    assert (key.connect_string, key.znode_parent) == (connect_string, parent)


@pytest.mark.parametrize(
    "uri",
    ["hbase+zk://zk1:2181", "hbase+zk:///hbase", "hbase+zk://zk1:2181/", "hbase+zk://zk1:2181/hbase?a=b", "hbase+zk://zk1:2181/../x",
     "hbase+zk://u:p@zk1:2181/hbase", "hbase+zk://zk1:x/hbase", "hbase+zk://zk1/hbase", "hbase+zk://zk1:2181,zk2/hbase",
     "hbase+zk://zk1:2181/h%62ase", "hbase+rpc://m1:16000"],
)  # fmt: skip
def test_another_uri_is_refused_with_the_form_that_it_should_have(uri: str) -> None:
    with pytest.raises(ValueError, match="cluster key"):
        parse_cluster_key(uri)

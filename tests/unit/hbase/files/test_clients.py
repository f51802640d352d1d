"""The file system that a URL without a host leads to, and the error if there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from walferry.hbase.files.clients import file_system
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.space import space_at
from walferry.hbase.files.systems import file_size


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets fs.defaultFS."""

    def write(url: str) -> None:
        site = f"<configuration><property><name>fs.defaultFS</name><value>{url}</value></property></configuration>"
        (tmp_path / "core-site.xml").write_text(site)
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    return write


def test_a_dead_namenode_of_a_url_without_a_host_is_not_waited_for(default: Callable[[str], None]) -> None:
    default("hdfs://localhost:1")
    began = time.monotonic()
    with pytest.raises(StoreError, match=r"hdfs:///hbase: nothing listens on localhost:1 \(connection refused\)"):
        file_size("hdfs:///hbase")
    assert time.monotonic() - began < 20
    with pytest.raises(StoreError, match="NameNode localhost:1: "):
        space_at("hdfs:///hbase")


@pytest.mark.parametrize("url", ["file:///", "viewfs://table"])
def test_a_url_without_a_host_is_refused_if_the_default_file_system_is_another(default: Callable[[str], None], url: str) -> None:
    default(url)
    with pytest.raises(StoreError, match=r"names no NameNode, and HADOOP_CONF_DIR has no fs\.defaultFS of hdfs://.*:8020/a#b"):
        file_system("hdfs:///a#b")


def test_a_default_name_service_that_is_not_known_is_named(default: Callable[[str], None]) -> None:
    default("hdfs://cluster")
    with pytest.raises(StoreError, match=r"hdfs:///hbase: cluster is not a name service that HADOOP_CONF_DIR knows"):
        file_system("hdfs:///hbase")

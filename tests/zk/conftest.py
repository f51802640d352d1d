"""Fixtures of the tests against a real ZooKeeper."""

from tests.zk.fixtures import hbase, lasting_hbase, new_client, zk, zookeeper

__all__ = ["hbase", "lasting_hbase", "new_client", "zk", "zookeeper"]

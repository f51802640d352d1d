"""Fixtures of the tests against a real ZooKeeper."""

from tests.zk.fixtures import hbase, new_client, zk, zookeeper

__all__ = ["hbase", "new_client", "zk", "zookeeper"]

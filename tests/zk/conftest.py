"""Fixtures of the tests against a real ZooKeeper."""

from tests.zk.fixtures import at, hbase, lasting_hbase, new_client, refused_at_once, session, zk
from tests.zk.secured_fixtures import secured, secured_servers

__all__ = ["at", "hbase", "lasting_hbase", "new_client", "refused_at_once", "secured", "secured_servers", "session", "zk"]

"""Which HBase a cluster runs, as its servers publish it: text from outside, which a secured cluster may keep to itself."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.cluster import MAX_VERSION_CHARS, release
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import PBUF


class Servers(KazooClient):
    """The znode of one live server; None: it may not be read."""

    def __init__(self, version: str | None) -> None:
        super().__init__()
        self._version = version

    def get_children(self, path: str, watch: object = None) -> list[str]:
        return ["h,1,1"]

    def get(self, path: str) -> tuple[bytes, None]:
        if self._version is None:
            raise NoAuthError
        info = pb.RegionServerInfo()
        info.version_info.version = self._version
        info.version_info.url = info.version_info.revision = info.version_info.user = info.version_info.date = ""
        info.version_info.src_checksum = ""
        return PBUF + info.SerializePartialToString(), None


def test_a_version_is_a_short_line_whatever_a_server_publishes():
    assert release(Servers("2.6.1"), ZNodes("/hbase")) == "2.6.1"
    found = release(Servers("3\nall is well\x1b[2J" + "x" * 100_000), ZNodes("/hbase"))
    assert found
    assert (found.isprintable(), len(found)) == (True, MAX_VERSION_CHARS)


def test_servers_that_a_secured_cluster_keeps_to_itself_tell_nothing():
    assert release(Servers(None), ZNodes("/hbase")) is None

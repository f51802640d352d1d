"""The places of a region's blocks, as a NameNode's WebHDFS reports them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.files import clients
from walferry.master import locality
from walferry.master.locality import HdfsLocality
from walferry.master.reconcile import Known

ENCODED = "0123456789abcdef0123456789abcdef"
REGION = Known(
    f"t,,1700000000000.{ENCODED}.".encode(),
    pb.RegionInfo(region_id=1, table_name=pb.TableName(namespace=b"default", qualifier=b"t")),
    None,
    True,
)
FOLDER = f"/hbase/data/default/t/{ENCODED}"


class NameNode(BaseHTTPRequestHandler):
    """Two blocks a file: the first on a and b, the second on a."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        blocks = [
            {"block": {"numBytes": length}, "locations": [{"hostName": host} for host in hosts]}
            for length, hosts in ((30, "Ab"), (10, "A"))  # servers' names have small letters
        ]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"LocatedBlocks": {"locatedBlocks": blocks}}).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def namenode(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), NameNode)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    NameNode.asked.clear()
    files = [
        SimpleNamespace(path=f"{FOLDER}/L#0", isdir=True, length=0),
        SimpleNamespace(path=f"{FOLDER}/L#0/hfile", isdir=False, length=40),
        SimpleNamespace(path=f"{FOLDER}/.regioninfo", isdir=False, length=40),
    ]
    client = SimpleNamespace(list_status=lambda path, recursive: files)
    system = SimpleNamespace(client=client, _strip_protocol=lambda url: FOLDER)
    monkeypatch.setattr(clients, "file_system", lambda url: system)
    monkeypatch.setattr(locality, "web_addresses", lambda url: [f"127.0.0.1:{server.server_port}"])
    yield "hdfs://nn:8020/hbase"
    server.shutdown()
    server.server_close()


def test_each_host_has_its_part_of_the_bytes(namenode: str) -> None:
    assert HdfsLocality(namenode, "hbase")([REGION]) == {ENCODED: {"a": 1.0, "b": 0.75}}
    assert NameNode.asked == [f"/webhdfs/v1{FOLDER}/L%230/hfile?op=GET_BLOCK_LOCATIONS&user.name=hbase"]


def test_a_namenode_that_does_not_answer_leaves_no_preference(namenode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locality, "web_addresses", lambda url: ["127.0.0.1:9"])
    assert HdfsLocality(namenode, "hbase")([REGION]) == {}


def test_local_files_have_no_locality() -> None:
    assert HdfsLocality("file:/tmp/hbase", "hbase")([REGION]) == {}

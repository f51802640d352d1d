"""The web pages of HBase's servers, with any answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.zk.hbase_znodes import HBaseZNodes
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.values import PBUF

Answer = Callable[[BaseHTTPRequestHandler], None]
CONFIGURATION = "/conf?format=json"


def page(body: bytes, status: int = 200) -> Answer:
    return pages({CONFIGURATION: body}, status)


def pages(bodies: dict[str, bytes], status: int = 200) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(bodies.get(handler.path, b""))

    return answer


@contextmanager
def web_page(answer: Answer) -> Iterator[int]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def add_server(hbase: HBaseZNodes, port: int, number: int = 1) -> str:
    name = f"127.0.0.1,16020,{number}"
    hbase.zk.create(f"{hbase.nodes.rs}/{name}", PBUF + pb.RegionServerInfo(infoPort=port).SerializeToString())
    return name

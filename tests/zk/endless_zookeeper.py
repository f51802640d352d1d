"""A hostile ZooKeeper, and a client that meets it: a length of 2 GiB, and bytes without end. For test_client.py."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import sys
import threading

from walferry.base.zk.client import connect, disconnect, read
from walferry.base.zk.errors import ConnectError

ENDLESS = struct.pack(">i", 0x7FFFFFFF)
SESSION = struct.pack(">iiqi", 0, 20_000, 1, 16) + bytes(17)


def _talk(sock: socket.socket, to: str) -> None:
    with contextlib.suppress(OSError, struct.error), sock:
        sock.recv(struct.unpack(">i", sock.recv(4))[0])
        if to == "read":
            sock.sendall(struct.pack(">i", len(SESSION)) + SESSION)
            sock.recv(4096)
        sock.sendall(ENDLESS)
        for _ in range(600):
            sock.sendall(bytes(1 << 20))


def _serve(server: socket.socket, to: str) -> None:
    while True:
        threading.Thread(target=_talk, args=(server.accept()[0], to), daemon=True).start()


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main(to: str) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_serve, args=(server, to), daemon=True).start()
    before = _peak_mb()
    try:
        zk = connect(f"127.0.0.1:{server.getsockname()[1]}", 5, call_timeout=5)
        try:
            read(zk, "/hbase/hbaseid")
        finally:
            disconnect(zk)
    except ConnectError as error:
        print(type(error).__name__)
    print(_peak_mb() - before)


if __name__ == "__main__":
    main(sys.argv[1])

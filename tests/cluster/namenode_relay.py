"""Fake NameNodes: one passes its input on to a real NameNode, and one looks for our delegated tickets."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from walferry.base.protos import hdfs_pb2 as pb
from walferry.base.protos.parsing import delimited
from walferry.base.security import gssapi
from walferry.hbase.files.namenode import _PROTOCOL, _first, _frame, _header

CONTEXT_CALL, OWN_CALL, SASL_CALL = -3, 77_777, 2**32 - 33
NEGOTIATE = 1
_DELEGATED = 1  # GSS_C_DELEG_FLAG
_ACCEPT = 2


@dataclass
class Relay:
    """Passes each connection's bytes on to a NameNode, and adds its own order to each message once the client is logged in."""

    real: tuple[str, int]
    folder: str  # the folder that the order deletes
    answers: list[str] = field(default_factory=list)  # the NameNode's answers to the order

    def serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.real) as upstream:
            threading.Thread(target=self._back, args=(client, upstream), daemon=True).start()
            with suppress(EOFError, OSError):
                upstream.sendall(_exactly(client, 7))
                while True:
                    frame = _frame_of(client)
                    upstream.sendall(frame)
                    header = pb.RpcRequestHeader.FromString(_first(frame[4:])[0])
                    if header.callId == CONTEXT_CALL or _is_wrapped(frame):
                        upstream.sendall(self._order(header.clientId or bytes(16)))

    def _order(self, client: bytes) -> bytes:
        path = self.folder.encode()
        delete = b"\x0a" + bytes([len(path)]) + path + b"\x10\x01"
        call = pb.RequestHeader(methodName="delete", declaringClassProtocolName=_PROTOCOL, clientProtocolVersion=1)
        return _frame(_header(OWN_CALL, client), call, delimited(delete))

    def _back(self, client: socket.socket, upstream: socket.socket) -> None:
        with suppress(EOFError, OSError):
            while True:
                frame = _frame_of(upstream)
                header = pb.RpcResponseHeader.FromString(_first(frame[4:])[0])
                if header.callId == OWN_CALL:
                    self.answers.append(f"{header.status} {header.exceptionClassName}")
                else:
                    client.sendall(frame)
        client.close()


@dataclass
class Thief:
    """Poses as a service on localhost whose key it has, and records whether a client delegates its tickets to it."""

    keytab: Path
    service: str
    seen: list[tuple[bool, bool]] = field(default_factory=list)  # whether each token is good, and whether it delegates tickets
    answered: threading.Event = field(default_factory=threading.Event)  # set by a token, or by hanging up

    def serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            try:
                self._ask(client)
            except EOFError:
                self.answered.set()

    def _ask(self, client: socket.socket) -> None:
        _exactly(client, 7)
        _frame_of(client)
        method = pb.SaslAuth(method="KERBEROS", mechanism="GSSAPI", protocol=self.service, serverId="localhost")
        offer = pb.RpcSasl(state=NEGOTIATE, auths=[method])
        client.sendall(_frame(pb.RpcResponseHeader(callId=SASL_CALL, status=0), offer))
        _, rest = _first(_frame_of(client)[4:])
        self.seen.append(accept(self.keytab, pb.RpcSasl.FromString(_first(rest)[0]).token))
        self.answered.set()


def accept(keytab: Path, token: bytes) -> tuple[bool, bool]:
    """Return whether a token is good for the key in a keytab, and whether tickets are delegated in it."""
    library = gssapi.library()
    store = gssapi._Store(1, (gssapi._Element * 1)(gssapi._Element(b"keytab", f"FILE:{keytab}".encode())))
    minor, credential, context, flags = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint32()
    library.gss_acquire_cred_from(
        ctypes.byref(minor), None, 0, None, _ACCEPT, ctypes.byref(store), ctypes.byref(credential), None, None
    )
    out, (given, _kept) = gssapi._Buffer(), gssapi._buffer(token)
    major = library.gss_accept_sec_context(
        ctypes.byref(minor), ctypes.byref(context), credential, ctypes.byref(given), None, None, None, ctypes.byref(out),
        ctypes.byref(flags), None, None,
    )  # fmt: skip
    return major == 0, bool(flags.value & _DELEGATED)


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Yield the port of a server that serves its connections side by side."""
    listener = socket.create_server(("127.0.0.1", 0))

    def loop() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()
    with listener:
        yield int(listener.getsockname()[1])


def _exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        more = sock.recv(length - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _frame_of(sock: socket.socket) -> bytes:
    head = _exactly(sock, 4)
    return head + _exactly(sock, struct.unpack(">i", head)[0])


def _is_wrapped(frame: bytes) -> bool:
    header, rest = _first(frame[4:])
    if pb.RpcRequestHeader.FromString(header).callId != SASL_CALL - 2**32:
        return False
    return pb.RpcSasl.FromString(_first(rest)[0]).state == 5

"""Talks to one NameNode in Hadoop's RPC, version 9, with a user name that nothing proves, or with Kerberos.

hdfs-native does all work on files, but it has no call for the disk's space. And if NameNode and client disagree on security, it
waits for ever, or accepts whatever it gets. So `hdfs.py` first finds out here whether a login works.

    connection   = "hrpc", version, service class 0, auth: -33 SASL
    negotiation  = messages RpcSasl, call -33, each in a frame as below (Hadoop's SaslRpcClient):
                   client: NEGOTIATE                                   server: NEGOTIATE, methods
                   client: INITIATE, a method, GSSAPI's first token    server: CHALLENGE, token
                   client: RESPONSE, token, as often as it takes       server: SUCCESS, perhaps a token
                   After INITIATE with the method SIMPLE the server says nothing.
    context      = int32 total, delimited RpcRequestHeader (call -3), delimited IpcConnectionContext
    request      = int32 total, delimited RpcRequestHeader, delimited RequestHeader, delimited request
    response     = int32 total, delimited RpcResponseHeader, delimited response

With integrity or privacy, context, requests and responses form a stream of bytes in messages RpcSasl: WRAP, a token.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from glob import escape
from uuid import uuid4

from google.protobuf.message import DecodeError, Message

from walferry.base.closing import Closing
from walferry.base.errors import WalferryError
from walferry.base.protos import hdfs_pb2 as pb
from walferry.base.protos.parsing import delimited, length_at, parse_message
from walferry.base.security.gssapi import Context, KerberosError, check_host, credential_of
from walferry.base.security.login import HOST, Kerberos, Protection
from walferry.base.security.sasl import GssapiClient
from walferry.base.security.tickets import Service, principal_of
from walferry.base.texts import one_line
from walferry.base.users import user_name

CALL_SECONDS = 20.0
MAX_ANSWER_BYTES = 1 << 20
MAX_ROUNDS = 10  # of a negotiation; three are usual
MAX_TEXT_CHARS = 300
_PREAMBLE = b"hrpc" + bytes((9, 0)) + struct.pack(">b", -33)
_PROTOCOL = "org.apache.hadoop.hdfs.protocol.ClientProtocol"
_CONTEXT_CALL = -3
_SASL_CALL = -33
_PROTOBUF_KIND = 2
_SUCCESS, _NEGOTIATE, _INITIATE, _CHALLENGE, _RESPONSE, _WRAP = range(6)
_RPC_PROTECTION = "hadoop.rpc.protection"
_BRACES = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_OWN_HOST = f"*/{HOST}"  # the principal that a NameNode must have if no setting names one


class NameNodeError(WalferryError):
    """A NameNode gave an unknown answer. Neither this message nor the subclasses' messages name the NameNode."""


class NameNodeRefused(NameNodeError):
    """A NameNode answered a call with an exception."""


class LoginRefused(NameNodeError):
    """NameNode and client do not agree on how to log in, or the login failed."""


class WrongNameNode(LoginRefused):
    """The answering server is not the expected NameNode: it has another name, or does not use Kerberos."""


NO_ANSWER = (OSError, NameNodeError, KerberosError, DecodeError)  # the errors of connections and calls


class NameNode(Closing):
    """A connection to a NameNode; a context manager that closes it. Calls raise one of NO_ANSWER."""

    def __init__(self, host: str, port: int, kerberos: Kerberos | None, expected: str | None = None) -> None:
        """Connect and log in. The NameNode must have the principal `expected`, or match it if it is a pattern of Hadoop's. _HOST
        in it stands for the host. By default any principal of that host is accepted.

        Raises OSError, LoginRefused, KerberosError, DecodeError.
        """
        if kerberos is not None:
            check_host(kerberos, host)
        self._host = host
        self.service: Service | None = None  # the principal that the NameNode has proved, if it had to prove one
        self._client = uuid4().bytes
        self._calls = 0
        self._context: Context | None = None  # wraps each message, for integrity or privacy
        self._encrypt = False
        self._unwrapped = b""
        self._give_up = time.monotonic() + CALL_SECONDS
        self._sock = socket.create_connection((host, port), timeout=CALL_SECONDS)
        try:
            self._sock.sendall(_PREAMBLE)
            if kerberos:
                self._negotiate(kerberos, expected)
            else:
                self._begin_simple()
            user = None if kerberos else os.environ.get("HADOOP_USER_NAME") or user_name()
            who = pb.UserInformation(effectiveUser=user) if user else None
            self._send(_frame(_header(_CONTEXT_CALL, self._client), pb.IpcConnectionContext(userInfo=who, protocol=_PROTOCOL)))
        except BaseException:
            self._sock.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    def space(self) -> pb.GetFsStatsResponse:
        """Return the sizes of the file system's disks, in bytes (ClientProtocol.getFsStats)."""
        return parse_message(pb.GetFsStatsResponse, self._call("getFsStats"))

    def check_access(self, path: str, mode: int) -> None:
        """Check that this user has a right on a file or folder (ClientProtocol.checkAccess).

        `mode` consists of bits as in a file's mode: 1 execute, 2 write, 4 read. Raises NameNodeRefused with the reason if not.
        """
        self._call("checkAccess", pb.CheckAccessRequest(path=path, mode=mode))

    def _call(self, method: str, request: Message | None = None) -> bytes:
        """Send a request and return the response, by default a message without fields."""
        self._give_up = time.monotonic() + CALL_SECONDS
        call = pb.RequestHeader(methodName=method, declaringClassProtocolName=_PROTOCOL, clientProtocolVersion=1)
        self._send(_frame(_header(self._calls, self._client), call, request or b"\0"))
        self._calls += 1
        header, rest = _split(self._read_frame(self._from_socket if self._context is None else self._from_wraps))
        if header.status:
            raise NameNodeRefused(_words(header))
        return _first(rest)[0]

    def _begin_simple(self) -> None:
        # Without SASL, a NameNode that demands Kerberos hangs up. Its answer gets lost if it has not read all of our bytes.
        self._send_sasl(pb.RpcSasl(state=_NEGOTIATE))
        methods = {each.method: each for each in self._receive_sasl().auths}
        if "SIMPLE" not in methods:
            raise LoginRefused("demands Kerberos")
        self._send_sasl(pb.RpcSasl(state=_INITIATE, auths=[methods["SIMPLE"]]))

    def _negotiate(self, kerberos: Kerberos, expected: str | None) -> None:
        self._send_sasl(pb.RpcSasl(state=_NEGOTIATE))
        chosen = _chosen(self._receive_sasl())
        service = Service(chosen.protocol, chosen.serverId)
        _check_name(service, expected or _OWN_HOST, self._host)
        check_host(kerberos, service.host)  # a pattern may allow other hosts than this one
        credential = credential_of(kerberos)
        context = Context(credential, principal_of(service))
        client = GssapiClient(context, str(service), kerberos.of_namenodes, setting=_RPC_PROTECTION)
        self._send_sasl(pb.RpcSasl(state=_INITIATE, token=client.first(), auths=[chosen]))
        try:
            self._exchange(client)
        except LoginRefused:
            credential.distrust()  # the tickets may be for an old key of the server
            raise
        if client.protection is None:
            raise LoginRefused("has ended the negotiation before both sides had proved who they are")
        self.service = service
        if client.protection is not Protection.AUTHENTICATION:
            self._context, self._encrypt = context, client.protection is Protection.PRIVACY

    def _exchange(self, client: GssapiClient) -> None:
        for _ in range(MAX_ROUNDS):
            answer = self._receive_sasl()
            if answer.state == _SUCCESS:
                return
            if answer.state != _CHALLENGE:
                raise LoginRefused(f"answered in state {answer.state} of a negotiation")
            self._send_sasl(pb.RpcSasl(state=_RESPONSE, token=client.answer(answer.token)))

    def _send_sasl(self, message: Message) -> None:
        self._sock.sendall(_frame(_header(_SASL_CALL, b""), message))

    def _receive_sasl(self) -> pb.RpcSasl:
        header, rest = _split(self._read_frame(self._from_socket))
        if header.status:
            raise LoginRefused(
                f"refused the login: {_words(header)}",
                "Its log says more. Its key may have been changed, its clock or this machine's may be wrong, or the principal "
                "may be of a realm that the cluster does not trust",
            )
        return parse_message(pb.RpcSasl, _first(rest)[0])

    def _send(self, frame: bytes) -> None:
        if self._context is None:
            self._sock.sendall(frame)
        else:
            self._send_sasl(pb.RpcSasl(state=_WRAP, token=self._context.wrap(frame, encrypt=self._encrypt)))

    def _from_wraps(self, length: int) -> bytes:
        assert self._context is not None
        while len(self._unwrapped) < length:
            self._unwrapped += self._context.unwrap(self._receive_sasl().token, encrypted=self._encrypt)
        data, self._unwrapped = self._unwrapped[:length], self._unwrapped[length:]
        return data

    def _from_socket(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            left = self._give_up - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            more = self._sock.recv(length - len(data))
            if not more:
                raise NameNodeError("hung up without an answer")
            data += more
        return data

    @staticmethod
    def _read_frame(take: Callable[[int], bytes]) -> bytes:
        (length,) = struct.unpack(">i", take(4))
        if not 0 < length <= MAX_ANSWER_BYTES:
            raise NameNodeError(f"an answer of {length} bytes is not one of Hadoop's RPC")
        return take(length)


def _chosen(offer: pb.RpcSasl) -> pb.SaslAuth:
    """Return the offered method Kerberos. Raises WrongNameNode, also if SIMPLE is offered: hdfs-native would use that."""
    methods = {each.method: each for each in offer.auths}
    if offer.state != _NEGOTIATE or "KERBEROS" not in methods or "SIMPLE" in methods:
        offered = one_line(", ".join(sorted(methods)), MAX_TEXT_CHARS) or "nothing"
        raise WrongNameNode(
            f"does not demand Kerberos, but the login has a principal: it offers {offered}",
            "Nothing was read or written. Find out whether that is the NameNode. If it is, its cluster is not secured: then take "
            "principal and keytab out of the connection, and hadoop.security.authentication out of HADOOP_CONF_DIR",
        )
    return methods["KERBEROS"]


def _check_name(service: Service, expected: str, host: str) -> None:
    """Raise WrongNameNode if a NameNode on `host` has a name other than the expected one, or does not match that pattern.

    _HOST stands for the host's name in our URL. Hadoop's client takes the resolver's name for the host's address
    (SecurityUtil.getServerPrincipal), but the owner of the address can choose that name.
    """
    pattern = expected.partition("@")[0]
    names = _NAME.fullmatch(service.name) and _NAME.fullmatch(service.host)
    if not names or not _matches(str(service), pattern.replace(HOST, escape(host))):
        raise WrongNameNode(
            f"says that it is {one_line(str(service), MAX_TEXT_CHARS)}, but must be {pattern.replace(HOST, host)}",
            "If it is the NameNode, call it by that host name in the URL, or in HADOOP_CONF_DIR. Else compare "
            "dfs.namenode.kerberos.principal and dfs.namenode.kerberos.principal.pattern there with what the cluster has",
        )


def _matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern of Hadoop's (GlobPattern): *, ?, [abc], {one,another}. Case does not matter."""
    if braces := _BRACES.search(pattern):
        before, after = pattern[: braces.start()], pattern[braces.end() :]
        return any(_matches(name, f"{before}{each}{after}") for each in braces[1].split(","))
    return fnmatchcase(name.lower(), pattern.lower())


def _words(header: pb.RpcResponseHeader) -> str:
    """Return the first line of an exception: its class and its message."""
    text = f"{header.exceptionClassName.rpartition('.')[2]}: {header.errorMsg.partition(chr(10))[0]}"
    return one_line(text, MAX_TEXT_CHARS)


def _header(call_id: int, client: bytes) -> Message:
    return pb.RpcRequestHeader(rpcKind=_PROTOBUF_KIND, rpcOp=0, callId=call_id, clientId=client, retryCount=-1)


def _frame(*parts: Message | bytes) -> bytes:
    body = b"".join(part if isinstance(part, bytes) else delimited(part.SerializeToString()) for part in parts)
    return struct.pack(">i", len(body)) + body


def _split(frame: bytes) -> tuple[pb.RpcResponseHeader, bytes]:
    header, rest = _first(frame)
    return parse_message(pb.RpcResponseHeader, header), rest


def _first(data: bytes) -> tuple[bytes, bytes]:
    """Return the first delimited message, and the bytes after it. Raises DecodeError."""
    found = length_at(data, 0)
    if found is None or len(data) < sum(found):
        raise DecodeError("a message is cut off")
    length, start = found
    return data[start : start + length], data[start + length :]

"""Negotiates a connection to an HBase server up to the first request, without I/O (ServerRpcConnection, NettyRpcConnection).

    plain        = preamble(SIMPLE), connection header                              and no answer
    kerberos     = [ask], preamble(KERBEROS), token exchange, connection header     and no answer
    ask          ⇒ "Securi"                              ⇐ response to call -1 (SecurityPreamableResponse), from HBase 2.6 on;
                                                           older ones answer with an exception, and close the connection
    token        ⇒ int32 length, bytes                   ⇐ int32 0, int32 length, bytes
    refusal                                              ⇐ int32 1, int32 length, Java class, int32 length, message
    not secured                                          ⇐ int32 0, int32 -88

The client sends the last token. If the server agrees, it sends nothing; a refusal comes in place of the first response. With
integrity or privacy everything from the connection header on is wrapped: see base/security/sasl.py. All of this may be inside
TLS, which HBase serves on the same port.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.base.security.gssapi import Context, Credential, KdcSilent, check_host, credential_of
from walferry.base.security.login import HOST, Kerberos, Protection
from walferry.base.security.sasl import MAX_TOKEN_BYTES, GssapiClient, Wraps
from walferry.base.security.waiting import Slow, Step, Steps
from walferry.base.texts import one_line
from walferry.hbase.rpc import codec
from walferry.hbase.rpc.channel import Layer
from walferry.hbase.rpc.codec import INT32, AuthMethod, Buffer, CodecError, Failure
from walferry.hbase.rpc.errors import (
    MAX_CLASS_NAME_CHARS,
    MAX_MESSAGE_CHARS,
    FatalConnection,
    NotSecured,
    PrincipalNotNamed,
    SaslRefused,
    WrongServerPrincipal,
    remote_error,
)

DEFAULT_SERVICE = "hbase"
ASK_PRINCIPAL = b"Securi"
WRAP_OVERHEAD_BYTES = 1024
_SENT_AT_ONCE = 1 << 20
_SUCCESS, _ERROR, _SIMPLE = 0, 1, -88
_MAX_TEXT_BYTES = 64 * 1024
_MAX_PRINCIPAL_CHARS = 500
_NOT_A_PREAMBLE = "Expected HEADER="  # in ServerRpcConnection.processPreamble, and in HBase 1's SimpleRpcServer


@dataclass(frozen=True)
class Server:
    """The server of a connection: its host as ZooKeeper names it, and `host:port` for messages."""

    host: str
    name: str


def kerberos(
    server: Server, login: Kerberos, max_response_bytes: int, principal: str | None = None
) -> Steps[tuple[Protection, list[Layer]]]:
    """Authenticate both sides, and return the agreed protection and the layers to put on the connection.

    `principal` is the server's principal if it is known. Raises KerberosError, SaslRefused, NotSecured, WrongServerPrincipal,
    PrincipalNotNamed, CodecError.
    """
    check_host(login, server.host)
    if principal is None:
        principal = yield from _principal_of(server, login)
    credential = credential_of(login)
    context = Context(credential, principal)
    client = GssapiClient(context, principal, login.of_hbase)
    kdcs = f"{credential} in {principal.rpartition('@')[2]}"
    try:
        token = yield Slow(client.first, kdcs)
    except TimeoutError as error:
        raise KdcSilent(credential, principal) from error
    yield codec.preamble(AuthMethod.KERBEROS) + codec.framed(token)
    try:
        while client.protection is None:
            came = yield from _token(server, principal)
            yield codec.framed((yield Slow(partial(client.answer, came), kdcs)))
    except SaslRefused:
        credential.distrust()  # the tickets may be for an old key of the server
        raise
    layers: list[Layer] = [LateRefusal(server, principal, credential)]
    if client.protection is not Protection.AUTHENTICATION:
        sent, received = min(client.max_token_bytes, _SENT_AT_ONCE), max_response_bytes + WRAP_OVERHEAD_BYTES
        layers.append(Wraps(context, client.protection, sent, received))
    return client.protection, layers


def candidates(server: Server, login: Kerberos) -> list[str]:
    """Return the principals that the server may have."""
    realm = login.realm
    patterns = login.servers or (f"{DEFAULT_SERVICE}/{HOST}",)
    # The realm is added before the host is filled in: the host comes from a znode, and must not choose the realm.
    whole = [pattern if "@" in pattern or realm is None else f"{pattern}@{realm}" for pattern in patterns]
    return list(dict.fromkeys(pattern.replace(HOST, server.host.lower()) for pattern in whole))


def _principal_of(server: Server, login: Kerberos) -> Generator[Step, bytes, str]:
    """Return the server's principal. If there are several candidates, ask the server, as HBase's own client does."""
    known = candidates(server, login)
    if len(known) == 1:
        return known[0]
    yield ASK_PRINCIPAL
    parser = codec.ResponseParser(_MAX_TEXT_BYTES)
    answers = parser.feed((yield INT32.size))
    while not answers:
        answers = parser.feed((yield parser.missing))
    if isinstance(answers[0], Failure):
        error = remote_error(server.name, answers[0].exception)
        if "SecurityNotEnabled" in error.class_name:
            raise NotSecured(server.name)
        if isinstance(error, FatalConnection) and _NOT_A_PREAMBLE in error.message:
            raise PrincipalNotNamed(server.name, known)
        raise error
    found = parse_message(pb.SecurityPreamableResponse, answers[0].message).server_principal
    if found not in known:  # the answer is not authenticated
        raise WrongServerPrincipal(server.name, one_line(found, _MAX_PRINCIPAL_CHARS), known)
    return found


def _token(server: Server, principal: str) -> Generator[Step, bytes, bytes]:
    (status,) = INT32.unpack((yield INT32.size))
    if status == _ERROR:
        raise (yield from _refusal(server, principal))
    if status != _SUCCESS:
        raise CodecError(f"a SASL status of {status}, where {_SUCCESS} or {_ERROR} is allowed")
    (length,) = INT32.unpack((yield INT32.size))
    if length == _SIMPLE:
        raise NotSecured(server.name)
    if not 0 <= length <= MAX_TOKEN_BYTES:
        raise CodecError(f"a SASL token of {length} bytes, where at most {MAX_TOKEN_BYTES} are allowed")
    return (yield length) if length else b""


def _refusal(server: Server, principal: str) -> Generator[Step, bytes, SaslRefused]:
    """Read the rest of a refusal, whose status has already been read."""
    texts = []
    for limit in (MAX_CLASS_NAME_CHARS, MAX_MESSAGE_CHARS):
        (length,) = INT32.unpack((yield INT32.size))
        if not 0 <= length <= _MAX_TEXT_BYTES:
            raise CodecError(f"a text of {length} bytes in a SASL refusal, where at most {_MAX_TEXT_BYTES} are allowed")
        text = (yield length) if length else b""
        texts.append(one_line(text.decode(errors="replace"), limit))
    return SaslRefused(server.name, principal, *texts)


class LateRefusal:
    """The layer that finds a refusal in place of the first response. It lies beneath the wraps: a refusal is not wrapped."""

    def __init__(self, server: Server, principal: str, credential: Credential) -> None:
        self._server = server
        self._principal = principal
        self._credential = credential
        self._first = b""
        self._passed = False

    def outgoing(self, buffers: Sequence[Buffer]) -> Iterable[Buffer]:
        """Return the buffers unchanged."""
        return buffers

    def incoming(self, data: Buffer) -> bytes:
        """Return the bytes unless they are a refusal. Raises SaslRefused, CodecError."""
        if self._passed:
            return bytes(data)
        self._first += data
        if len(self._first) < INT32.size:
            return b""
        # Every response and every wrap is longer.
        if INT32.unpack_from(self._first) != (_ERROR,):
            self._passed = True
            data, self._first = self._first, b""
            return data
        steps, position = _refusal(self._server, self._principal), INT32.size
        try:
            wanted = next(steps)
            while isinstance(wanted, int) and position + wanted <= len(self._first):
                position += wanted
                wanted = steps.send(self._first[position - wanted : position])
        except StopIteration as end:
            self._credential.distrust()
            raise end.value from None
        return b""

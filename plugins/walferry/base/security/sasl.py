"""Implements the client of SASL's GSSAPI mechanism (RFC 4752) without I/O: tokens in, tokens out.

client                            server
token*                  ⇄         token*             until the security context is established (RFC 2743)
empty token, if the last one was the server's
                        ⇐         wrap(layers, max)  layers: bits 1 auth, 2 auth-int, 4 auth-conf; max: uint24, bytes a token
wrap(layer, max)        ⇒                            neither wrap is encrypted
then, unless the layer is auth, everything both ways in wraps: each is as the transport frames it (HBase: int32 length, token)
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

from walferry.base.security.gssapi import Context, KerberosError
from walferry.base.security.login import Protection
from walferry.base.security.pieces import Buffer, pieces

MAX_TOKEN_BYTES = 64 * 1024  # of a handshake; a ticket with Active Directory's groups has at most 48 KiB
_LAYERS = {Protection.AUTHENTICATION: 1, Protection.INTEGRITY: 2, Protection.PRIVACY: 4}
_NO_LIMIT = 0xFFFFFF
_FRAME = struct.Struct(">i")


class ProtectionRefused(KerberosError):
    """The server does not offer a strong enough protection."""

    retry_helps = False


class GssapiClient:
    """The client's side of one negotiation. `least` is the weakest accepted protection; the strongest is taken.

    `setting` is the name of the server's setting for the protections that it offers.
    """

    def __init__(self, context: Context, server: str, least: Protection, *, setting: str = "hbase.rpc.protection") -> None:
        self._setting = setting
        self._context = context
        self._server = server
        self._accepted = least.at_least
        self.protection: Protection | None = None  # set once the negotiation is complete
        self.max_token_bytes = _NO_LIMIT  # the server's limit

    def first(self) -> bytes:
        """Return the first token. Raises KerberosError."""
        return self._context.step(b"")

    def answer(self, token: bytes) -> bytes:
        """Return the answer to the server's token. Raises KerberosError, ProtectionRefused."""
        if self.protection is not None:
            raise KerberosError(f"{self._server} goes on with a negotiation that has ended")
        if not self._context.established:
            return self._context.step(token)
        return self._choose(self._context.unwrap(token, encrypted=False))

    def _choose(self, offer: bytes) -> bytes:
        if len(offer) != 4:
            raise KerberosError(f"{self._server} offers its protections in {len(offer)} bytes, where there must be 4")
        offered = frozenset(each for each, bit in _LAYERS.items() if offer[0] & bit)
        usable = [each for each in Protection if each in offered & self._accepted]
        if not usable:
            raise ProtectionRefused(
                f"{self._server} offers {_named(offered) or 'no protection that is known'}, but at least "
                f"{min(self._accepted, key=list(Protection).index)} is demanded",
                f"Set {self._setting} of the cluster to what is demanded, or demand less by `protection` of its connection",
            )
        chosen = usable[-1]
        limit = int.from_bytes(offer[1:], "big")
        if chosen is not Protection.AUTHENTICATION:
            self.max_token_bytes = limit or _NO_LIMIT
        answer = bytes((_LAYERS[chosen],)) + (b"\0\0\0" if chosen is Protection.AUTHENTICATION else _NO_LIMIT.to_bytes(3, "big"))
        wrapped = self._context.wrap(answer, encrypt=False)
        self.protection = chosen
        return wrapped


def _named(protections: Iterable[Protection]) -> str:
    return " and ".join(each for each in Protection if each in protections)


class Wraps:
    """Wraps the bytes of both directions once integrity or privacy is negotiated, in HBase's frames: int32 length, token.

    The bytes inside form a stream: the borders between wraps mean nothing.
    """

    def __init__(self, context: Context, protection: Protection, most_sent: int, most_received: int) -> None:
        """`most_sent` and `most_received` limit the bytes of a token to the server and from the server."""
        self._context = context
        self._encrypt = protection is Protection.PRIVACY
        self._piece = max(1, context.wrap_limit(most_sent, encrypt=self._encrypt))
        self._most_received = most_received
        self._arrived = bytearray()

    def outgoing(self, buffers: Sequence[Buffer]) -> Iterator[bytes]:
        """Yield the frames for `buffers` one after the other. Raises KerberosError."""
        for piece in pieces(buffers, self._piece):
            token = self._context.wrap(piece, encrypt=self._encrypt)
            yield _FRAME.pack(len(token)) + token

    def incoming(self, data: Buffer) -> bytes:
        """Return the bytes of the wraps that `data` completes, often none. Raises KerberosError."""
        self._arrived += data
        found = []
        while len(self._arrived) >= _FRAME.size:
            (size,) = _FRAME.unpack_from(self._arrived)
            if not 0 < size <= self._most_received:
                raise KerberosError(f"a wrapped message of {size} bytes, where 1 to {self._most_received} are allowed")
            end = _FRAME.size + size
            if len(self._arrived) < end:
                break
            token = bytes(memoryview(self._arrived)[_FRAME.size : end])
            del self._arrived[:end]
            found.append(self._context.unwrap(token, encrypted=self._encrypt))
        return b"".join(found)

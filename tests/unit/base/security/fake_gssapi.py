"""Security contexts without Kerberos: what `wrap` does can be seen in its tokens. What real ones do is shown with a real KDC."""

from __future__ import annotations

from walferry.base.security.gssapi import KerberosError

LAYERS = {"authentication": 1, "integrity": 2, "privacy": 4}


class FakeContext:
    """A context that is established after `steps` tokens of the server."""

    def __init__(self, steps: int = 1) -> None:
        self._left = steps
        self.seen: list[bytes] = []

    @property
    def established(self) -> bool:
        return self._left < 0

    def step(self, token: bytes) -> bytes:
        self.seen.append(token)
        self._left -= 1
        return b"token" if self._left >= 0 else b""

    def wrap(self, data: bytes, *, encrypt: bool) -> bytes:
        return wrapped(bytes(data), encrypt=encrypt)

    def unwrap(self, token: bytes, *, encrypted: bool) -> bytes:
        if token[:1] not in (b"E", b"I"):
            raise KerberosError("a message is not as it was sent")
        if encrypted and token[:1] != b"E":
            raise KerberosError("a message that is not encrypted, as was agreed")
        return token[1:]

    def wrap_limit(self, size: int, *, encrypt: bool) -> int:
        return size - 1


class FakeCredential:
    """Counts how often its tickets were given up."""

    def __init__(self) -> None:
        self.forgotten = 0

    def distrust(self) -> None:
        self.forgotten += 1


def wrapped(data: bytes, *, encrypt: bool = False) -> bytes:
    return (b"E" if encrypt else b"I") + data


def offer(*protections: str, limit: int = 0xFFFFFF) -> bytes:
    """What a server offers: its protections, and the bytes of a token that it takes."""
    return wrapped(bytes((sum(LAYERS[each] for each in protections),)) + limit.to_bytes(3, "big"))

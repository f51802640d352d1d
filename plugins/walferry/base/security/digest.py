"""Implements the client's side of SASL DIGEST-MD5 (RFC 2831) without I/O, with qop auth, for password logins to ZooKeeper.

    server    realm="zk-sasl-md5",nonce="…",charset=utf-8,algorithm=md5-sess
    client    username="…",realm="…",nonce="…",cnonce="…",nc=00000001,qop=auth,digest-uri="zookeeper/zk-sasl-md5",response=<hex>
    server    rspauth=<hex>

The last message proves that the server knows the password, or its hashed form that this protocol uses. An eavesdropper can try
passwords on the exchange; only TLS hides it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from walferry.base.errors import WalferryError

MAX_CHALLENGE_BYTES = 2048  # RFC 2831, 2.1.1
_DIRECTIVE = re.compile(r'\s*([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))\s*(?:,|$)')
_FIRST_USE = "00000001"  # of a nonce


class DigestError(WalferryError):
    """The server's message in a password login is malformed, or does not prove that the server knows the password."""

    retry_helps = False


class DigestClient:
    """One login of `user` at the service `uri`, e.g. "zookeeper/zk-sasl-md5". The password is UTF-8 text."""

    def __init__(self, user: str, password: bytes, uri: str) -> None:
        self._user = user
        self._password = password
        self._uri = uri
        self._expected = ""  # the server's proof
        self.proved = False  # whether the server has proved itself too

    def answer(self, token: bytes) -> bytes:
        """Answer the challenge; then check the server's proof, and return nothing. Raises DigestError."""
        found = _directives(token)
        if not self._expected:
            return self._respond(found)
        if not hmac.compare_digest(found.get("rspauth", "").encode(), self._expected.encode()):
            raise DigestError("the server does not prove that it knows the password")
        self.proved = True
        return b""

    def _respond(self, challenge: dict[str, str]) -> bytes:
        nonce, realm = challenge.get("nonce", ""), challenge.get("realm", "")
        if not nonce or challenge.get("algorithm", "").lower() != "md5-sess":
            raise DigestError("the server's challenge has no nonce, or is not for md5-sess")
        if "auth" not in challenge.get("qop", "auth").split(","):
            raise DigestError(f"the server does not offer qop auth, only {challenge['qop']}")
        cnonce = secrets.token_hex(16)
        identity = b":".join((_in_hash(self._user), _in_hash(realm), _in_hash(self._password.decode(errors="replace"))))
        secret = _md5(identity).digest() + f":{nonce}:{cnonce}".encode()
        begin = f"{_md5(secret).hexdigest()}:{nonce}:{_FIRST_USE}:{cnonce}:auth:"

        def proof(method: str) -> str:
            return _md5((begin + _md5(f"{method}:{self._uri}".encode()).hexdigest()).encode()).hexdigest()

        self._expected = proof("")
        quoted = {"username": self._user, "realm": realm, "nonce": nonce, "cnonce": cnonce}
        words = ["charset=utf-8", *(f'{name}="{_escaped(value)}"' for name, value in quoted.items())]
        words += [f"nc={_FIRST_USE}", "qop=auth", f'digest-uri="{self._uri}"', f"response={proof('AUTHENTICATE')}"]
        return ",".join(words).encode()


def _directives(token: bytes) -> dict[str, str]:
    if len(token) > MAX_CHALLENGE_BYTES:
        raise DigestError(f"the server's challenge has {len(token)} bytes, where {MAX_CHALLENGE_BYTES} are allowed")
    text, position, found = token.decode(errors="replace"), 0, dict[str, str]()
    while position < len(text):
        match = _DIRECTIVE.match(text, position)
        if match is None:
            raise DigestError("the server's challenge cannot be parsed")
        name, quoted, plain = match.groups()
        found.setdefault(name.lower(), plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        position = match.end()
    return found


def _in_hash(text: str) -> bytes:
    """Encode a text for the hash: in ISO 8859-1 if possible, even if everything else is UTF-8 (RFC 2831, 2.1.2.1)."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _md5(data: bytes) -> hashlib._Hash:
    return hashlib.md5(data, usedforsecurity=False)  # the protocol has no other hash; it must work on machines in FIPS mode too

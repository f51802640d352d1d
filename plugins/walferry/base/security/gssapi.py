"""Speaks Kerberos through the system's GSSAPI library, MIT's libgssapi_krb5 (RFC 2744; credential stores: MIT's gssapi_ext.h).

The library is loaded at the first use: clusters without Kerberos do not need it. ctypes calls it: the packages that bind it have
no builds for Linux, and Walferry must install without a compiler. Calls that talk to a KDC let other threads run.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import os
import threading
import time
from collections.abc import Mapping
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from typing import Any

from walferry.base.errors import WalferryError
from walferry.base.security.keytab import problem_of
from walferry.base.security.login import Kerberos
from walferry.base.texts import one_line

LIBRARIES = ("libgssapi_krb5.so.2", "libgssapi_krb5.dylib", "libgssapi_krb5.so")
DISTRUST_SECONDS = 10.0
MAX_STATUS_CHARS = 500

_CONTINUE_NEEDED = 1
_ROUTINE_ERRORS = 0xFFFF0000  # the upper half of a major status contains calling and routine errors
_BY_GSSAPI, _BY_MECHANISM = 1, 2
_INITIATE = 1
_MUTUAL, _REPLAY, _SEQUENCE, _CONFIDENTIAL, _INTEGRITY = 2, 4, 8, 16, 32
_KERBEROS = bytes.fromhex("2a864886f712010202")
_PRINCIPAL_NAME = bytes.fromhex("2a864886f71201020201")  # GSS_KRB5_NT_PRINCIPAL_NAME
_AS_THEY_ARE: Mapping[str, str] = {}
_AT_THE_KDC = (
    "Compare the server's principal and host name with the principals that the KDC has, and see whether the realm's KDC can be "
    "reached"
)
_generations = itertools.count(1)  # of tickets, counted in the whole process
_NO_REASON = "Success"  # the mechanism's text if GSSAPI itself found the error
# If a keytab has no key of the principal, the library looks for tickets in a cache, and reports that it found none.
_REWORDED = {"No credentials cache found": "its keytab holds no key of it"}


class KerberosError(WalferryError):
    """Kerberos refused something; the message says what, for which principal, and why, in the library's words."""


class NoKey(KerberosError):
    """The keytab is unreadable here, or lacks the principal's key. Waiting does not help: an operator must correct the file."""

    retry_helps = False


class HostNotNamed(KerberosError):
    """A peer cluster names a host at which its connection does not allow the principal. Nothing was sent to the host."""

    retry_helps = False

    def __init__(self, kerberos: Kerberos, host: str) -> None:
        named = one_line(", ".join(kerberos.hosts) or "none", MAX_STATUS_CHARS)
        super().__init__(
            f"{kerberos.principal or 'the principal of the credential cache'} is not used with the host "
            f"{one_line(host, MAX_STATUS_CHARS)!r}, which only the peer cluster names: its connection names {named}",
            "If it is one of the peer cluster's servers, add it to `hosts` of the peer cluster's connection (of the source's, "
            "if the peer cluster has none), as a name or as a pattern such as *.west.example.com",
        )


def check_host(kerberos: Kerberos, host: str) -> None:
    """Raise HostNotNamed if an identity may not be used with the servers of a host."""
    if not kerberos.may_meet(host):
        raise HostNotNamed(kerberos, host)


class KerberosMissing(KerberosError):
    """This machine has no Kerberos libraries."""

    retry_helps = False


class KdcSilent(KerberosError):
    """No KDC has answered in time."""

    def __init__(self, credential: Credential, server: str) -> None:
        super().__init__(
            f"no ticket of {credential} for {server} in time: no KDC has answered yet",
            "See that the KDCs of krb5.conf (KRB5_CONFIG) can be reached from this machine",
        )


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_void_p))


class _Element(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


@functools.cache
def library() -> ctypes.CDLL:
    """Return the library. Raises KerberosMissing if this machine has none."""
    for name in LIBRARIES:
        try:
            loaded = ctypes.CDLL(name)
            _ = loaded.gss_acquire_cred_from  # only MIT's library has this
        except (OSError, AttributeError):
            continue
        return loaded
    raise KerberosMissing(
        "this machine has no MIT Kerberos libraries (libgssapi_krb5)",
        "Install them on each machine that talks to the cluster: libgssapi-krb5-2 on Debian, krb5-libs on Red Hat",
    )


class Credential:
    """The tickets of one identity, for this process. Tickets from a keytab are renewed as connections need them."""

    def __init__(self, kerberos: Kerberos) -> None:
        self.kerberos = kerberos
        self._lock = threading.Lock()
        self._generation = 0
        self._distrusted_at = -DISTRUST_SECONDS

    def __str__(self) -> str:
        return self.kerberos.principal or "the principal of the credential cache"

    def forget(self) -> None:
        """Never use any of the present tickets again, nor another credential's."""
        with self._lock:
            self._distrusted_at = time.monotonic()
            self._generation = next(_generations)

    def distrust(self) -> None:
        """Forget tickets that did not help: the server may have a new key by now, or the tickets have expired.

        This keeps tickets that are almost new: they are not the cause, and the memory of forgotten tickets is never freed.
        """
        if time.monotonic() - self._distrusted_at >= DISTRUST_SECONDS:
            self.forget()

    @property
    def cache_name(self) -> str | None:
        """The name of the cache with the tickets from a keytab; None without a keytab."""
        if self.kerberos.keytab is None:
            return None
        with self._lock:
            cache = f"{self.kerberos.principal}\n{self.kerberos.keytab}\n{self._generation}".encode()
        return f"MEMORY:walferry-{hashlib.sha256(cache).hexdigest()}"

    def acquire(self) -> c_void_p:
        """Return a handle to the credential, which the caller must release. Raises KerberosError."""
        keytab = self.kerberos.keytab
        if keytab is not None and (why := problem_of(keytab, self.kerberos.principal)):
            raise NoKey(f"no ticket for {self}: {why}")
        name = _name(self.kerberos.principal) if self.kerberos.principal else c_void_p()
        elements = []
        if keytab is not None and (cache := self.cache_name) is not None:
            elements.append(_Element(b"client_keytab", os.fsencode(f"FILE:{keytab}")))
            elements.append(_Element(b"ccache", cache.encode()))
        store, credential = _Store(len(elements), (_Element * len(elements))(*elements)), c_void_p()
        try:
            _call(
                "gss_acquire_cred_from", name, c_uint32(0), None, c_int(_INITIATE), byref(store) if elements else None,
                byref(credential), None, None, problem=f"no ticket for {self}", advice=_advice(self.kerberos),
                reworded=_REWORDED if keytab else {},
            )  # fmt: skip
        finally:
            _release("gss_release_name", name)
        return credential

    def get(self) -> None:
        """Get a ticket, if there is none yet. Raises KerberosError, also if the tickets of kinit have expired."""
        left, credential = c_uint32(), self.acquire()
        try:
            library().gss_inquire_cred(byref(c_uint32()), credential, None, byref(left), None, None)
        finally:
            _release("gss_release_cred", credential)
        if not left.value and self.kerberos.keytab is None:
            raise KerberosError(f"the ticket of {self} has expired", _advice(self.kerberos))


@functools.lru_cache(maxsize=64)
def credential_of(kerberos: Kerberos) -> Credential:
    """Return the tickets of an identity in this process."""
    return Credential(kerberos)


class Context:
    """The security context between one identity and one server, from the first token to the last message (RFC 2743).

    `server` is a principal, so DNS does not influence its identity. Nothing is delegated to it.
    """

    def __init__(self, credential: Credential, server: str) -> None:
        self._credential = credential
        self._server = server
        self._handle = c_void_p()
        self.established = False

    def __del__(self) -> None:
        if self._handle:
            library().gss_delete_sec_context(byref(c_uint32()), byref(self._handle), None)

    def step(self, token: bytes) -> bytes:
        """Answer the server's token, which is empty at the beginning. The answer may be empty too. Raises KerberosError."""
        out, granted = _Buffer(), c_uint32()
        mechanism, _keep = _oid(_KERBEROS)
        wanted = _MUTUAL | _REPLAY | _SEQUENCE | _CONFIDENTIAL | _INTEGRITY
        credential, target = self._credential.acquire(), _name(self._server)
        try:
            given, _bytes = _buffer(token)
            kerberos = self._credential.kerberos
            advice = f"{_AT_THE_KDC} {_by_settings()}" if kerberos.keytab else _advice(kerberos)
            major = _call(
                "gss_init_sec_context", credential, byref(self._handle), target, byref(mechanism), c_uint32(wanted), c_uint32(0),
                None, byref(given) if token else None, None, byref(out), byref(granted), None,
                problem=f"{self._credential} got no access to {self._server}", advice=advice,
            )  # fmt: skip
        except KerberosError:
            self._credential.distrust()  # they may have expired: the library renews them at half of their time, but not always
            raise
        finally:
            _release("gss_release_name", target)
            _release("gss_release_cred", credential)
        if major != _CONTINUE_NEEDED:
            if not granted.value & _MUTUAL:
                raise KerberosError(f"{self._server} did not prove who it is")
            self.established = True
        return _taken(out)

    def wrap(self, data: bytes | bytearray | memoryview, *, encrypt: bool) -> bytes:
        """Return a token with `data`, signed, and encrypted if `encrypt`. Raises KerberosError."""
        encrypted, out, (given, _keep) = c_int(), _Buffer(), _buffer(data)
        problem = f"a message to {self._server} cannot be signed"
        _call("gss_wrap", self._handle, c_int(encrypt), c_uint32(0), byref(given), byref(encrypted), byref(out), problem=problem)
        token = _taken(out)
        if encrypt and not encrypted.value:
            raise KerberosError(f"a message to {self._server} cannot be encrypted")
        return token

    def unwrap(self, token: bytes | bytearray | memoryview, *, encrypted: bool) -> bytes:
        """Return the data of a token from the server. Raises KerberosError if it was changed, or is not encrypted as expected."""
        was_encrypted, out, (given, _keep) = c_int(), _Buffer(), _buffer(token)
        problem = f"a message from {self._server} is not as it was sent"
        _call("gss_unwrap", self._handle, byref(given), byref(out), byref(was_encrypted), None, problem=problem, exactly=True)
        data = _taken(out)
        if encrypted and not was_encrypted.value:
            raise KerberosError(f"{self._server} sent a message that is not encrypted, as was agreed")
        return data

    def wrap_limit(self, size: int, *, encrypt: bool) -> int:
        """Return the most bytes that `wrap` turns into a token of at most `size` bytes. Raises KerberosError."""
        limit, problem = c_uint32(), f"messages to {self._server} cannot be signed"
        _call("gss_wrap_size_limit", self._handle, c_int(encrypt), c_uint32(0), c_uint32(size), byref(limit), problem=problem)
        return limit.value


def _advice(kerberos: Kerberos) -> str:
    if kerberos.keytab is None:
        return "Give the connection a keytab with its principal, or get a ticket by kinit for the user that runs this"
    return f"Compare principal and keytab (klist -kt), and see whether the realm's KDC can be reached {_by_settings()}"


def _by_settings() -> str:
    """Return a text with the places where the libraries look for krb5.conf, and whether they find it."""
    paths = os.environ.get("KRB5_CONFIG") or "/etc/krb5.conf"
    there = any(os.path.exists(path) for path in paths.split(os.pathsep))
    return f"(KRB5_CONFIG, krb5.conf: {paths if there else f'there is no {paths}'})"


def _oid(encoded: bytes) -> tuple[_Oid, Any]:
    kept = ctypes.create_string_buffer(encoded, len(encoded))
    return _Oid(len(encoded), ctypes.cast(kept, c_void_p)), kept


def _buffer(data: bytes | bytearray | memoryview) -> tuple[_Buffer, Any]:
    """Return a descriptor of `data`, and the object to keep during its use. Only `bytes` are not copied."""
    kept = c_char_p(data if isinstance(data, bytes) else bytes(data))
    return _Buffer(len(data), ctypes.cast(kept, c_void_p)), kept


def _taken(buffer: _Buffer) -> bytes:
    """Return a copy of the bytes that the library returned, and release them."""
    data = ctypes.string_at(buffer.value, buffer.length) if buffer.length and buffer.value else b""
    library().gss_release_buffer(byref(c_uint32()), byref(buffer))
    return data


def _name(principal: str) -> c_void_p:
    name, (kind, _kept), (given, _bytes) = c_void_p(), _oid(_PRINCIPAL_NAME), _buffer(principal.encode())
    problem, advice = f"{principal!r} is not a principal", "A principal is written as name/host@REALM"
    _call("gss_import_name", byref(given), byref(kind), byref(name), problem=problem, advice=advice)
    return name


def _release(function: str, handle: c_void_p) -> None:
    if handle:
        getattr(library(), function)(byref(c_uint32()), byref(handle))


def _call(
    function: str, *args: Any, problem: str, advice: str = "", exactly: bool = False, reworded: Mapping[str, str] = _AS_THEY_ARE
) -> int:
    """Call a function, and return its major status. Raises a KerberosError with the problem and the advice if it fails.

    `exactly`: also for mere warnings, such as a message that came twice. `reworded` are other words for the library's.
    """
    minor = c_uint32()
    major: int = getattr(library(), function)(byref(minor), *args)
    if major & 0xFFFFFFFF & (0xFFFFFFFF if exactly else _ROUTINE_ERRORS):
        words = _status(minor.value, _BY_MECHANISM) if minor.value else ""
        if words in ("", _NO_REASON):
            words = _status(major, _BY_GSSAPI)
        raise KerberosError(f"{problem}: {reworded.get(words, words)}", advice)
    return major


def _status(code: int, kind: int) -> str:
    more, out, (mechanism, _kept) = c_uint32(), _Buffer(), _oid(_KERBEROS)
    status = c_uint32(code & 0xFFFFFFFF)
    library().gss_display_status(byref(c_uint32()), status, c_int(kind), byref(mechanism), byref(more), byref(out))
    return one_line(_taken(out).decode(errors="replace"), MAX_STATUS_CHARS)

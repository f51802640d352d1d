"""Keeps tickets for single servers in credential caches of their own, for a library that logs in by itself.

hdfs-native asks GSSAPI for a ticket for whatever server the other side claims to be, and makes GSSAPI forward our ticket-granting
ticket to it (GSS_C_DELEG_FLAG). So it gets a cache without a ticket-granting ticket, with tickets only for the intended servers.
Then nothing can be forwarded, and the library cannot get a ticket for any other server.

The cache lies in the memory of the Kerberos library (libkrb5), which the GSSAPI library uses too, and so does hdfs-native. ctypes
fills it, for the reasons in `gssapi.py`. The structures come from krb5.h, and have not changed since MIT Kerberos 1.0.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_uint, c_void_p
from dataclasses import dataclass

from walferry.base.security.gssapi import MAX_STATUS_CHARS, Credential, KerberosError, library
from walferry.base.texts import one_line

NO_KEYS = "MEMORY:walferry-no-keys"  # a keytab without keys. Else a library would use the environment's keytab
_UNKNOWN_TYPE = 0  # KRB5_NT_UNKNOWN: without DNS, whatever krb5.conf says (dns_canonicalize_hostname, rdns)
_numbers = itertools.count()


class _Data(ctypes.Structure):
    _fields_ = (("magic", c_int32), ("length", c_uint), ("data", c_void_p))


class _Keyblock(ctypes.Structure):
    _fields_ = (("magic", c_int32), ("enctype", c_int32), ("length", c_uint), ("contents", c_void_p))


class _Creds(ctypes.Structure):
    _fields_ = (
        ("magic", c_int32), ("client", c_void_p), ("server", c_void_p), ("keyblock", _Keyblock), ("authtime", c_int32),
        ("starttime", c_int32), ("endtime", c_int32), ("renew_till", c_int32), ("is_skey", c_uint), ("ticket_flags", c_int32),
        ("addresses", c_void_p), ("ticket", _Data), ("second_ticket", _Data), ("authdata", c_void_p),
    )  # fmt: skip


@dataclass(frozen=True, order=True)
class Service:
    """A service on a host, "nn" on "nn1.example.com", whose realm the Kerberos libraries find out."""

    name: str
    host: str

    def __str__(self) -> str:
        return f"{self.name}/{self.host}"


class TicketCache:
    """Tickets of a credential for some services, which live as long as this object. They belong to `principal`.

    A service that the KDC does not know is left out. Raises KerberosError, also if the KDC knows none of them.
    """

    def __init__(self, credential: Credential, services: Collection[Service]) -> None:
        self.name = f"MEMORY:walferry-{os.getpid()}-{next(_numbers)}"
        credential.get()  # ensures that there is a fresh ticket-granting ticket
        with _Library() as kerberos:
            tickets = kerberos.cache_of(credential)
            mine = kerberos.cache(self.name)
            client = kerberos.owner(tickets)
            self.principal = kerberos.text(client)
            kerberos.call("krb5_cc_initialize", mine, client)
            ends = [end for each in services if (end := kerberos.copy_ticket(tickets, client, each, mine)) is not None]
        if not ends:
            named = ", ".join(map(str, services))
            raise KerberosError(
                f"{credential} got no ticket for {named}",
                "Compare the names of the servers with the principals that the KDC has, and domain_realm in krb5.conf",
            )
        now = time.time()
        self.renew_at = now + (min(ends) - now) / 2

    def __del__(self) -> None:
        if hasattr(self, "principal"):  # else the cache was never made
            with suppress(KerberosError), _Library() as kerberos:
                kerberos.destroy(self.name)


def principal_of(service: Service) -> str:
    """Return a service's principal for GSSAPI. Its realm is empty if the KDC must find it out. This does not ask DNS.

    Raises KerberosError.
    """
    with _Library() as kerberos:
        return kerberos.text(kerberos.principal(service))


class _Library:
    """libkrb5 for the length of a block. At its end all objects made in it are freed."""

    def __init__(self) -> None:
        self._functions = library()  # its dependencies are found through it
        self._context = c_void_p()
        self._made = ExitStack()

    def __enter__(self) -> _Library:
        self.call("krb5_init_context", byref(self._context), bare=True)
        self._free("krb5_free_context")
        return self

    def __exit__(self, *_: object) -> None:
        self._made.close()

    def call(self, function: str, *args: object, bare: bool = False) -> None:
        """Call a function that returns a code. Raises KerberosError."""
        code = getattr(self._functions, function)(*args) if bare else getattr(self._functions, function)(self._context, *args)
        if code:
            raise KerberosError(f"{function.removeprefix('krb5_')}: {self._words(code)}")

    def _words(self, code: int) -> str:
        said = self._functions.krb5_get_error_message
        said.restype = c_void_p
        text = c_void_p(said(self._context, c_int32(code)))
        words = ctypes.string_at(text).decode(errors="replace") if text else f"error {code}"
        self._functions.krb5_free_error_message(self._context, text)
        return one_line(words, MAX_STATUS_CHARS)

    def _free(self, function: str, *args: object) -> None:
        self._made.callback(getattr(self._functions, function), self._context, *args)

    def _made_by(self, function: str, free: str, *args: object) -> c_void_p:
        """Return the object that a function makes, and free it at the block's end. Raises KerberosError."""
        found = c_void_p()
        self.call(function, *args, byref(found))
        self._free(free, found)
        return found

    def principal(self, service: Service) -> c_void_p:
        host, name = c_char_p(service.host.lower().encode()), c_char_p(service.name.encode())
        return self._made_by("krb5_sname_to_principal", "krb5_free_principal", host, name, c_int32(_UNKNOWN_TYPE))

    def _parsed(self, text: str) -> c_void_p:
        return self._made_by("krb5_parse_name", "krb5_free_principal", c_char_p(text.encode()))

    def text(self, principal: c_void_p) -> str:
        found = c_char_p()
        self.call("krb5_unparse_name", principal, byref(found))
        text = (found.value or b"").decode(errors="replace")
        self._functions.krb5_free_unparsed_name(self._context, found)
        return text

    def cache(self, name: str) -> c_void_p:
        return self._made_by("krb5_cc_resolve", "krb5_cc_close", c_char_p(name.encode()))

    def destroy(self, name: str) -> None:
        found = c_void_p()
        self.call("krb5_cc_resolve", c_char_p(name.encode()), byref(found))
        self.call("krb5_cc_destroy", found)

    def cache_of(self, credential: Credential) -> c_void_p:
        """Return the cache with a credential's ticket-granting ticket: its own, or one of the environment's."""
        if (name := credential.cache_name) is not None:
            return self.cache(name)
        if (principal := credential.kerberos.principal) is None:
            return self._made_by("krb5_cc_default", "krb5_cc_close")
        return self._made_by("krb5_cc_cache_match", "krb5_cc_close", self._parsed(principal))

    def owner(self, cache: c_void_p) -> c_void_p:
        return self._made_by("krb5_cc_get_principal", "krb5_free_principal", cache)

    def copy_ticket(self, tickets: c_void_p, client: c_void_p, service: Service, to: c_void_p) -> int | None:
        """Get a ticket for a service, and put it into a cache. Returns its end time; None if the KDC does not know the service.

        The cache gets it under each name by which GSSAPI may look for it: krb5.conf decides whether the realm is found out first.
        """
        wanted = self.principal(service)
        with self._ticket(tickets, client, wanted) as ticket:
            if ticket is None:
                return None
            names = {self.text(c_void_p(ticket.server)), self.text(wanted), f"{self.text(wanted).rpartition('@')[0]}@"}
            for name in sorted(names):
                copy = _Creds.from_buffer_copy(ticket)
                copy.server = self._parsed(name).value
                self.call("krb5_cc_store_cred", to, byref(copy))
            return int(ticket.endtime) & 0xFFFFFFFF  # unsigned seconds, for times after 2038

    @contextmanager
    def _ticket(self, tickets: c_void_p, client: c_void_p, server: c_void_p) -> Iterator[_Creds | None]:
        wanted, found = _Creds(client=client.value, server=server.value), POINTER(_Creds)()
        code = self._functions.krb5_get_credentials(self._context, c_int(0), tickets, byref(wanted), byref(found))
        try:
            yield None if code else found.contents
        finally:
            if not code:
                self._functions.krb5_free_creds(self._context, found)

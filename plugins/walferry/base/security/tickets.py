"""Tickets for single servers, in credential caches of their own, for a library that logs in by itself.

hdfs-native asks GSSAPI for a ticket for whoever the other side says that it is, and has our ticket-granting ticket forwarded to
it (GSS_C_DELEG_FLAG). So it gets a cache in which there is no ticket-granting ticket, only those for the servers that were meant:
without one nothing can be forwarded, and no other server can be asked for.

The cache is one in the memory of the Kerberos library (libkrb5), which GSSAPI's uses too, and hdfs-native with it. It is filled
by ctypes, as `gssapi.py` says; the structures are those of krb5.h, where they have stayed the same since MIT Kerberos 1.0.
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

NO_KEYS = "MEMORY:walferry-no-keys"  # a keytab without keys. Else a library would look into one of the environment's
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
    """Tickets of a credential for some services, which live as long as this object. `principal` is whose they are.

    A service that the KDC does not know is left out. Raises KerberosError, also if the KDC knows none of them.
    """

    def __init__(self, credential: Credential, services: Collection[Service]) -> None:
        self.name = f"MEMORY:walferry-{os.getpid()}-{next(_numbers)}"
        credential.get()  # so that there is a ticket-granting ticket, and no old one
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
        if hasattr(self, "principal"):  # else it was never made
            with suppress(KerberosError), _Library() as kerberos:
                kerberos.destroy(self.name)


def principal_of(service: Service) -> str:
    """The principal of a service, for GSSAPI. It has an empty realm if the KDC is to find that out. DNS is not asked.

    Raises KerberosError.
    """
    with _Library() as kerberos:
        return kerberos.text(kerberos.principal(service))


class _Library:
    """libkrb5 for the length of a block, after which all that was made in it is freed."""

    def __init__(self) -> None:
        self._functions = library()  # what it depends on is found through it
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
        """What a function makes, which is freed at the block's end. Raises KerberosError."""
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
        """The cache with the ticket-granting ticket of a credential: its own, or one of the environment's."""
        if (name := credential.cache_name) is not None:
            return self.cache(name)
        if (principal := credential.kerberos.principal) is None:
            return self._made_by("krb5_cc_default", "krb5_cc_close")
        return self._made_by("krb5_cc_cache_match", "krb5_cc_close", self._parsed(principal))

    def owner(self, cache: c_void_p) -> c_void_p:
        return self._made_by("krb5_cc_get_principal", "krb5_free_principal", cache)

    def copy_ticket(self, tickets: c_void_p, client: c_void_p, service: Service, to: c_void_p) -> int | None:
        """Get a ticket for a service, and put it into a cache. Returns when it ends; None if the KDC does not know the service.

        It is put there under each name by which GSSAPI may look for it: krb5.conf decides whether the realm is found out first.
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
            return int(ticket.endtime) & 0xFFFFFFFF  # a number of seconds without a sign, beyond 2038

    @contextmanager
    def _ticket(self, tickets: c_void_p, client: c_void_p, server: c_void_p) -> Iterator[_Creds | None]:
        wanted, found = _Creds(client=client.value, server=server.value), POINTER(_Creds)()
        code = self._functions.krb5_get_credentials(self._context, c_int(0), tickets, byref(wanted), byref(found))
        try:
            yield None if code else found.contents
        finally:
            if not code:
                self._functions.krb5_free_creds(self._context, found)

"""Makes secured clusters of each kind, each in a JVM, with the fields of a connection to them.

with kerberos, PEER_CLUSTERS["privacy-tls"](folder, kerberos, authority, "peer_cluster").cluster: ...
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from embedded.certificates import Authority
from embedded.kerberos import Kerberos
from embedded.secured import secured, tls_settings
from embedded.standalone import StandaloneCluster

EAST, WEST = "EAST.EXAMPLE", "WEST.EXAMPLE"
USER = "walferry"


@dataclass(frozen=True)
class SecuredSite:
    """A cluster, and the facts that a login to it needs."""

    cluster: StandaloneCluster
    kerberos: Kerberos
    realm: str | None = None  # None: without Kerberos
    protections: tuple[str, ...] = ()  # offered by its servers, from weak to strong
    tls: Mapping[str, str] = field(default_factory=dict, hash=False)  # a connection's fields for TLS

    def fields(self, user: str = USER) -> dict[str, str]:
        """Return the fields of a connection's extra for the login of `user`, of this site's own realm."""
        if self.realm is None:
            return {"user": user, **self.tls}
        return {**identity(self.kerberos, f"{user}@{self.realm}"), **self.tls}


def identity(kerberos: Kerberos, principal: str) -> dict[str, str]:
    """Return the fields of a connection's extra for a principal with its realm."""
    return {"principal": principal, "keytab": str(kerberos.keytab(principal)), "hosts": "localhost"}


class MakeSite(Protocol):
    """Makes a site of one kind; `heap` is its JVM's heap."""

    def __call__(
        self, folder: Path, kerberos: Kerberos, authority: Authority, name: str, *, heap: str = "512m"
    ) -> SecuredSite: ...


def protected(*protections: str, realm: str = WEST, tls: bool = False, client_auth: str = "NONE") -> MakeSite:
    """Return a function that makes a site: `make(folder, kerberos, authority, name)`. Without protections it has no Kerberos.

    With `client_auth` = "NEED" the site's servers demand certificates of clients.
    """

    def make(folder: Path, kerberos: Kerberos, authority: Authority, name: str, *, heap: str = "512m") -> SecuredSite:
        conf: dict[str, str] = {}
        fields: dict[str, str] = {}
        if tls:
            conf = tls_settings(authority, authority.certificate(name, "localhost"), client_auth=client_auth)
            fields = {"tls_ca": str(authority.pem)}
        if client_auth == "NEED":  # HBase compares the names in a client's certificate with its address
            own = authority.certificate(f"{name}-client", "localhost", "127.0.0.1")
            fields |= {"tls_certificate": str(own.certificate), "tls_key": str(own.key)}
        if not protections:
            return SecuredSite(StandaloneCluster(folder, conf, name=name, heap=heap), kerberos, tls=fields)
        cluster = secured(folder, kerberos, realm, protection=",".join(protections), conf=conf, name=name, heap=heap)
        return SecuredSite(cluster, kerberos, realm, protections, fields)

    return make


PEER_CLUSTERS = {
    "tls": protected(tls=True, client_auth="NEED"),
    "authentication": protected("authentication"),
    "integrity": protected("integrity"),
    "privacy": protected("privacy"),
    "privacy-tls": protected("privacy", tls=True),
}

"""Logins: as whom Walferry talks to a cluster, and what it demands of the cluster's servers.

A login holds no secrets, because it travels in arguments and logs. It names files that hold them: keytabs, private keys,
passwords. They must be readable on each machine that talks to the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

HOST = "_HOST"  # stands for the server's host name in a principal, as in Hadoop's settings
MAX_PASSWORD_BYTES = 1024


class Protection(StrEnum):
    """What SASL does to each message, from weak to strong, by the names of hbase.rpc.protection."""

    AUTHENTICATION = "authentication"  # nothing: qop auth
    INTEGRITY = "integrity"  # a checksum: qop auth-int
    PRIVACY = "privacy"  # encryption: qop auth-conf

    @property
    def at_least(self) -> frozenset[Protection]:
        """This protection and those that are stronger."""
        every = list(Protection)
        return frozenset(every[every.index(self) :])


@dataclass(frozen=True, kw_only=True)
class Kerberos:
    """A Kerberos identity. Without a keytab, the tickets in the process's credential cache are used, and nothing renews them."""

    principal: str | None = None  # "walferry/host@REALM"; None: the one of the credential cache
    keytab: str | None = None  # path
    protection: Protection | None = None  # the weakest that is accepted; None: see of_hbase and of_namenodes
    servers: tuple[str, ...] = ()  # principals of HBase's servers, e.g. "hbase/_HOST@REALM"; none: that, in our own realm
    hosts: tuple[str, ...] = ()  # hosts of slaves with which it may be used: names, or patterns such as "*.west.example.com"
    only_hosts: bool = False  # whether it is used with a slave, which may name any host, and so with `hosts` alone

    @property
    def of_hbase(self) -> Protection:
        """The weakest protection that is accepted of HBase's servers."""
        return self.protection or Protection.AUTHENTICATION

    @property
    def of_namenodes(self) -> Protection:
        """The weakest protection that is accepted of NameNodes: what they say decides what is read, and believed to be WALs."""
        return self.protection or Protection.INTEGRITY

    def may_meet(self, host: str) -> bool:
        """Whether it may be used with the servers of a host."""
        name = host.lower().rstrip(".")
        return not self.only_hosts or any(fnmatchcase(name, each.lower().replace("[", "[[]")) for each in self.hosts)

    @property
    def realm(self) -> str | None:
        """The realm of the principal, if it is known."""
        return self.principal.rpartition("@")[2] if self.principal and "@" in self.principal else None


@dataclass(frozen=True, kw_only=True)
class Tls:
    """How to talk TLS. The server's certificate must be signed by one in `ca`, and must be for the host that is asked."""

    ca: str  # path of the accepted authorities, PEM
    certificate: str | None = None  # path of our own certificate and its chain, PEM
    key: str | None = None  # path of its private key, PEM; None: it stands in `certificate`
    key_password_file: str | None = None  # path of a file with the key's password


class ZooKeeperAuth(StrEnum):
    """How to log in to ZooKeeper."""

    NONE = "none"
    KERBEROS = "kerberos"  # SASL GSSAPI, as the login's Kerberos principal
    DIGEST = "digest"  # SASL DIGEST-MD5, by a user name and a password


@dataclass(frozen=True, kw_only=True)
class ZooKeeperLogin:
    """A login to a ZooKeeper ensemble."""

    auth: ZooKeeperAuth = ZooKeeperAuth.NONE
    server: str = f"zookeeper/{HOST}"  # the servers' principal, without a realm: in our own
    user: str | None = None  # for DIGEST
    password_file: str | None = None  # for DIGEST: path of a file with the password
    tls: Tls | None = None


@dataclass(frozen=True, kw_only=True)
class Login:
    """As whom to talk to a cluster: to its HBase servers, to its ZooKeeper, and to its HDFS, which takes `kerberos` alone."""

    user: str | None = None  # effective user of RPCs without Kerberos; None: the process's user
    kerberos: Kerberos | None = None
    tls: Tls | None = None  # of HBase's RPC
    zookeeper: ZooKeeperLogin = field(default_factory=ZooKeeperLogin)

    def without_password(self) -> Login:
        """The same login for another cluster: all but the password for ZooKeeper."""
        if self.zookeeper.auth is not ZooKeeperAuth.DIGEST:
            return self
        return replace(self, zookeeper=replace(self.zookeeper, auth=ZooKeeperAuth.NONE, user=None, password_file=None))

    def for_slaves(self, *more_hosts: str) -> Login:
        """The same login for a slave: its principal is used with its `hosts`, and `more_hosts`, alone."""
        if self.kerberos is None:
            return self
        hosts = tuple(dict.fromkeys((*self.kerberos.hosts, *more_hosts)))
        return replace(self, kerberos=replace(self.kerberos, hosts=hosts, only_hosts=True))


def login_from(fields: Mapping[str, Any]) -> Login:
    """The login of which `asdict` has made `fields`. Raises TypeError, ValueError, AttributeError for anything else."""
    kerberos, tls, zookeeper = fields.get("kerberos"), fields.get("tls"), fields.get("zookeeper") or {}
    return Login(
        user=fields.get("user"),
        kerberos=Kerberos(**kerberos | _kerberos_types(kerberos)) if kerberos is not None else None,
        tls=Tls(**tls) if tls is not None else None,
        zookeeper=ZooKeeperLogin(
            **zookeeper
            | {"auth": ZooKeeperAuth(zookeeper.get("auth", ZooKeeperAuth.NONE))}
            | {"tls": Tls(**zookeeper["tls"]) if zookeeper.get("tls") is not None else None}
        ),
    )


def _kerberos_types(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "protection": Protection(fields["protection"]) if fields.get("protection") is not None else None,
        "servers": tuple(fields.get("servers", ())),
        "hosts": tuple(fields.get("hosts", ())),
    }


UNSECURED = Login()


def password_in(path: str) -> bytes:
    """The password in a file, without the end of its line. Raises OSError, and ValueError for what is too long to be one."""
    with open(path, "rb") as file:
        found = file.read(MAX_PASSWORD_BYTES + 1)
    if len(found) > MAX_PASSWORD_BYTES:
        raise ValueError(f"{path} holds more than {MAX_PASSWORD_BYTES} bytes, so it is no password")
    return found.rstrip(b"\r\n")

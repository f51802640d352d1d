"""Defines logins: Walferry's identity at a cluster, and the proof that it demands of the cluster's servers.

A login contains no secrets, because it travels in arguments and logs. It names the files that contain them: keytabs, private
keys, passwords. These files must be readable on each machine that talks to the cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from walferry.base.records import Strict

HOST = "_HOST"  # stands for the server's host name in a principal, as in Hadoop's settings
MAX_PASSWORD_BYTES = 1024


class Protection(StrEnum):
    """SASL's protection of each message, from weak to strong, by the names of hbase.rpc.protection."""

    AUTHENTICATION = "authentication"  # nothing: qop auth
    INTEGRITY = "integrity"  # a checksum: qop auth-int
    PRIVACY = "privacy"  # encryption: qop auth-conf

    @property
    def at_least(self) -> frozenset[Protection]:
        """This protection and all stronger ones."""
        every = list(Protection)
        return frozenset(every[every.index(self) :])


@dataclass(frozen=True, kw_only=True)
class Kerberos(Strict):
    """A Kerberos identity. Without a keytab, it uses the tickets in the process's credential cache, which nothing renews."""

    principal: str | None = None  # "walferry/host@REALM"; None: the principal of the credential cache
    keytab: str | None = None  # path
    protection: Protection | None = None  # the weakest accepted one; None: see of_hbase and of_namenodes
    servers: tuple[str, ...] = ()  # principals of HBase's servers, e.g. "hbase/_HOST@REALM"; none: that, in our own realm
    hosts: tuple[str, ...] = ()  # allowed hosts of peer clusters: names, or patterns such as "*.west.example.com"
    only_hosts: bool = False  # whether it is for a peer cluster, which may name any host, and so for `hosts` alone

    @property
    def of_hbase(self) -> Protection:
        """The weakest protection that is accepted from HBase's servers."""
        return self.protection or Protection.AUTHENTICATION

    @property
    def of_namenodes(self) -> Protection:
        """The weakest protection that is accepted from NameNodes: their answers decide which bytes are read and taken as WALs."""
        return self.protection or Protection.INTEGRITY

    def may_meet(self, host: str) -> bool:
        """Return whether this identity may be used with the servers of a host."""
        name = host.lower().rstrip(".")
        return not self.only_hosts or any(fnmatchcase(name, each.lower().replace("[", "[[]")) for each in self.hosts)

    @property
    def realm(self) -> str | None:
        """The realm of the principal, if it is known."""
        return self.principal.rpartition("@")[2] if self.principal and "@" in self.principal else None


@dataclass(frozen=True, kw_only=True)
class Tls(Strict):
    """Settings for TLS. An authority in `ca` must have signed the server's certificate, which must be for the called host."""

    ca: str  # path of the accepted authorities, PEM
    certificate: str | None = None  # path of our own certificate and its chain, PEM
    key: str | None = None  # path of its private key, PEM; None: `certificate` contains it
    key_password_file: str | None = None  # path of a file with the key's password


class ZooKeeperAuth(StrEnum):
    """The ways to log in to ZooKeeper."""

    NONE = "none"
    KERBEROS = "kerberos"  # SASL GSSAPI, as the login's Kerberos principal
    DIGEST = "digest"  # SASL DIGEST-MD5, by a user name and a password


@dataclass(frozen=True, kw_only=True)
class ZooKeeperLogin(Strict):
    """A login to a ZooKeeper ensemble."""

    auth: ZooKeeperAuth = ZooKeeperAuth.NONE
    server: str = f"zookeeper/{HOST}"  # the servers' principal; without a realm, our own realm
    user: str | None = None  # for DIGEST
    password_file: str | None = None  # for DIGEST: path of a file with the password
    tls: Tls | None = None


@dataclass(frozen=True, kw_only=True)
class Login:
    """The login to a cluster: to its HBase servers, its ZooKeeper, and its HDFS, which uses only `kerberos`."""

    user: str | None = None  # effective user of RPCs without Kerberos; None: the process's user
    kerberos: Kerberos | None = None
    tls: Tls | None = None  # for HBase's RPC
    zookeeper: ZooKeeperLogin = field(default_factory=ZooKeeperLogin)

    def without_password(self) -> Login:
        """Return this login for another cluster: without the password for ZooKeeper."""
        if self.zookeeper.auth is not ZooKeeperAuth.DIGEST:
            return self
        return replace(self, zookeeper=replace(self.zookeeper, auth=ZooKeeperAuth.NONE, user=None, password_file=None))

    def for_peer_clusters(self, *more_hosts: str) -> Login:
        """Return this login for a peer cluster: its principal is used only with its `hosts` and `more_hosts`."""
        if self.kerberos is None:
            return self
        hosts = tuple(dict.fromkeys((*self.kerberos.hosts, *more_hosts)))
        return replace(self, kerberos=replace(self.kerberos, hosts=hosts, only_hosts=True))


UNSECURED = Login()


def password_in(path: str) -> bytes:
    """Return the password in a file, without the line's end. Raises OSError, and ValueError if it is too long."""
    with open(path, "rb") as file:
        found = file.read(MAX_PASSWORD_BYTES + 1)
    if len(found) > MAX_PASSWORD_BYTES:
        raise ValueError(f"{path} holds more than {MAX_PASSWORD_BYTES} bytes, so it is no password")
    return found.rstrip(b"\r\n")

"""ZooKeeper servers that only accept known users, one of each kind for the whole session, and logins to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from embedded.certificates import EXPIRED, Authority
from embedded.kerberos import Kerberos as Kdcs
from embedded.zookeeper import ZooKeeperServer
from embedded.zookeeper_security import with_kerberos, with_passwords, with_tls
from walferry.base.security.login import Kerberos, Login, Tls, ZooKeeperAuth, ZooKeeperLogin

REALM = "EXAMPLE.COM"
SERVER = f"zookeeper/localhost@{REALM}"
HBASE, WALFERRY, STRANGER = f"hbase/localhost@{REALM}", f"walferry@{REALM}", f"stranger@{REALM}"
USER, PASSWORD = "walferry", 'pass "word\\ü'


@dataclass(frozen=True)
class Secured:
    """The servers, and the users who may log in to them.

    `kerberized` talks TLS at its other port. `with_passwords` does too, and demands client certificates there.
    """

    folder: Path
    kdcs: Kdcs
    authority: Authority
    kerberized: ZooKeeperServer
    with_passwords: ZooKeeperServer

    def kerberos(self, principal: str = WALFERRY, *, keytab: str | None = None, tls: Tls | None = None, **at: str) -> Login:
        """Return a login by Kerberos, with the principal's own `keytab` or another one."""
        identity = Kerberos(principal=principal, keytab=keytab or str(self.kdcs.keytab(principal)))
        return Login(kerberos=identity, zookeeper=ZooKeeperLogin(auth=ZooKeeperAuth.KERBEROS, tls=tls, **at))

    def password(self, user: str = USER, password: str = PASSWORD, *, tls: Tls | None = None) -> Login:
        file = self.folder / f"{user}.password"
        file.write_text(f"{password}\n")
        return Login(zookeeper=ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user=user, password_file=str(file), tls=tls))

    def tls(self, authority: Authority | None = None, certificate: str | None = None) -> Tls:
        """Return TLS settings with our own certificate of that name, signed by `authority`."""
        folder = (authority or self.authority).pem.parent
        of = {"certificate": str(folder / f"{certificate}.pem"), "key": str(folder / f"{certificate}.key")} if certificate else {}
        return Tls(ca=str(self.authority.pem), **of)


@pytest.fixture(scope="session")
def secured_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder / "ca")
    certificate = authority.certificate("server", "localhost")
    authority.certificate("client")
    authority.certificate("expired", valid=EXPIRED)
    names = [each.removesuffix(f"@{REALM}") for each in (SERVER, HBASE, WALFERRY, STRANGER)]
    with Kdcs(folder / "kdc", {REALM: [*names, "zookeeper/other"]}) as kdcs:
        tls = with_tls(authority, certificate)
        passwords = with_passwords({USER: PASSWORD}) + with_tls(authority, certificate, ask_clients=True)
        with (
            ZooKeeperServer(folder / "kerberized", security=with_kerberos(kdcs, SERVER) + tls) as kerberized,
            ZooKeeperServer(folder / "with-passwords", security=passwords) as by_password,
        ):
            yield Secured(folder, kdcs, authority, kerberized, by_password)


@pytest.fixture
def secured(secured_servers: Secured, monkeypatch: pytest.MonkeyPatch) -> Secured:
    for name, value in secured_servers.kdcs.environment.items():
        monkeypatch.setenv(name, value)
    return secured_servers

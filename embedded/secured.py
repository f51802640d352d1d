"""Runs clusters that require logins: Kerberos on HBase's RPC and in ZooKeeper, each in a realm of `Kerberos`; and TLS.

    kerberos = Kerberos(folder / "kdc", {"EAST": principals("walferry"), "WEST": principals("walferry")})
    with kerberos, secured(folder / "source", kerberos, "EAST", protection="privacy") as cluster:

HBase's own principal is hbase/localhost, ZooKeeper's zookeeper/localhost. The users in `SUPERUSERS` have all rights of HBase, and
own each znode of HBase together with it. `tls_settings` returns settings for TLS on HBase's RPC.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from embedded.certificates import Authority, Certificate
from embedded.distributed import ClusterOptions
from embedded.ephemerals import SUPER_PASSWORD
from embedded.hbase import write_site
from embedded.kerberos import Kerberos
from embedded.standalone import StandaloneCluster

HBASE = "hbase/localhost"
ZOOKEEPER = "zookeeper/localhost"
SUPERUSERS = ("walferry",)
HADOOP = {
    "hadoop.security.authentication": "kerberos",
    "hadoop.security.auth_to_local": "RULE:[2:$1](.*)s/@.*//\nRULE:[1:$1](.*)s/@.*//\nDEFAULT",
}


def principals(*users: str) -> list[str]:
    """Return the principals that a realm needs for a cluster and its users."""
    return [HBASE, ZOOKEEPER, *users]


def secured(
    folder: Path,
    kerberos: Kerberos,
    realm: str,
    *,
    protection: str = "authentication",
    conf: Mapping[str, str] | None = None,
    name: str = "secured",
    heap: str = "512m",
) -> StandaloneCluster:
    """Return a cluster on local files whose servers demand Kerberos; `protection` is hbase.rpc.protection (one or several)."""
    settings = {**kerberos_settings(kerberos, realm, protection), **(conf or {})}
    return StandaloneCluster(folder, settings, name=name, heap=heap, jvm=_prepare(folder, kerberos, realm))


def secured_options(
    folder: Path, kerberos: Kerberos, realm: str, *, protection: str = "authentication", options: ClusterOptions
) -> ClusterOptions:
    """Return the options that make the DistributedCluster of that folder demand Kerberos. Other options may be added."""
    conf = {**kerberos_settings(kerberos, realm, protection), **options.conf}
    return replace(options, conf=conf, jvm=(*options.jvm, *_prepare(folder, kerberos, realm)))


def _prepare(folder: Path, kerberos: Kerberos, realm: str) -> tuple[str, ...]:
    """Write the files that servers in that folder need in addition to their settings, and return their JVMs' options."""
    write_site(folder / "conf" / "core-site.xml", HADOOP)  # else Hadoop's libraries in HBase do not know these settings
    return (*kerberos.jvm_options_in(realm), *zookeeper_options(folder, kerberos, realm))


def kerberos_settings(kerberos: Kerberos, realm: str, protection: str) -> dict[str, str]:
    """Return the settings in hbase-site.xml of servers and of Java clients, which log in as HBase itself."""
    hbase, keytab = f"{HBASE}@{realm}", str(kerberos.keytab(f"{HBASE}@{realm}"))
    return {
        "hbase.security.authentication": "kerberos",
        **HADOOP,
        "hbase.rpc.protection": protection,
        "hbase.superuser": ",".join(SUPERUSERS),
        "hbase.client.keytab.principal": hbase,
        "hbase.client.keytab.file": keytab,
        **{f"hbase.{server}.kerberos.principal": hbase for server in ("master", "regionserver")},
        **{f"hbase.{server}.keytab.file": keytab for server in ("master", "regionserver")},
    }


def tls_settings(authority: Authority, server: Certificate, *, client_auth: str = "NONE") -> dict[str, str]:
    """Return settings for TLS only, for HBase's servers and Java clients. `client_auth`: NONE, WANT or NEED certificates."""
    return {
        "hbase.server.netty.tls.enabled": "true",
        "hbase.client.netty.tls.enabled": "true",
        "hbase.server.netty.tls.supportplaintext": "false",
        "hbase.server.netty.tls.client.auth.mode": client_auth,
        "hbase.rpc.tls.enabledProtocols": "TLSv1.3,TLSv1.2",
        **{
            f"hbase.rpc.tls.{store}.{name}": value
            for store, path, password in (
                ("keystore", server.keystore, server.password),
                ("truststore", authority.truststore, authority.password),
            )
            for name, value in (("location", str(path)), ("type", "PKCS12"), ("password", password))
        },
    }


def zookeeper_options(folder: Path, kerberos: Kerberos, realm: str) -> Iterator[str]:
    """Yield the options of JVMs that are ZooKeeper servers and clients in one."""
    folder.mkdir(parents=True, exist_ok=True)
    jaas = folder / "jaas.conf"
    jaas.write_text(_jaas("Server", kerberos, f"{ZOOKEEPER}@{realm}") + _jaas("Client", kerberos, f"{HBASE}@{realm}"))
    yield f"-Djava.security.auth.login.config={jaas}"
    yield "-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    yield "-Dzookeeper.kerberos.removeHostFromPrincipal=true"
    yield "-Dzookeeper.kerberos.removeRealmFromPrincipal=true"
    yield "-Dzookeeper.security.auth_to_local=RULE:[2:$1] RULE:[1:$1]"  # else users of other realms are refused
    yield "-Dzookeeper.sasl.client.canonicalize.hostname=false"
    yield f"-Dzookeeper.DigestAuthenticationProvider.superDigest={_super_digest(folder)}"


def _super_digest(folder: Path) -> str:
    """Write the password that lets the tests delete any znode, and return its digest."""
    file = folder / "conf" / SUPER_PASSWORD
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(16))
    digest = hashlib.sha1(f"super:{file.read_text()}".encode()).digest()
    return f"super:{base64.b64encode(digest).decode()}"


def _jaas(section: str, kerberos: Kerberos, principal: str) -> str:
    return (
        f"{section} {{\n  com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true\n"
        f'  useTicketCache=false keyTab="{kerberos.keytab(principal)}" principal="{principal}";\n}};\n'
    )

"""Makes settings of a ZooKeeperServer for Kerberos, passwords and TLS. They can be added up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from embedded.certificates import Authority, Certificate
from embedded.kerberos import Kerberos
from embedded.zookeeper import ServerSecurity

_SASL = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}


def with_kerberos(kerberos: Kerberos, principal: str, *, keytab: Path | None = None, short_ids: bool = True) -> ServerSecurity:
    """Return settings of a server that logs in as `principal`. With `short_ids`, ACLs shorten "hbase/host@REALM" to "hbase".

    `keytab` is by default the principal's own; a test may pass a wrong one.
    """
    settings = dict(_SASL)
    if short_ids:
        settings |= {"kerberos.removeHostFromPrincipal": "true", "kerberos.removeRealmFromPrincipal": "true"}
    return ServerSecurity(
        settings,
        jaas=(
            "Server {\n  com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true\n"
            f'  useTicketCache=false keyTab="{keytab or kerberos.keytab(principal)}" principal="{principal}";\n}};\n'
        ),
        options=tuple(kerberos.jvm_options_in(principal.rpartition("@")[2])),
    )


def with_passwords(passwords: Mapping[str, str]) -> ServerSecurity:
    """Return settings of a server to which these users log in by DIGEST-MD5, and which refuses sessions without a login."""
    users = "".join(f'\n  user_{user}="{_quoted(password)}"' for user, password in passwords.items())
    settings = {**_SASL, "sessionRequireClientSASLAuth": "true"}
    return ServerSecurity(settings, f"Server {{\n  org.apache.zookeeper.server.auth.DigestLoginModule required{users};\n}};\n")


def with_tls(authority: Authority, certificate: Certificate, *, ask_clients: bool = False) -> ServerSecurity:
    """Return settings of a server with TLS at a second port, `tls_quorum`. With `ask_clients`, clients must have certificates."""
    return ServerSecurity(
        {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "ssl.keyStore.location": str(certificate.keystore),
            "ssl.keyStore.password": certificate.password,
            "ssl.trustStore.location": str(authority.truststore),
            "ssl.trustStore.password": authority.password,
            "ssl.clientAuth": "need" if ask_clients else "none",
            "ssl.clientHostnameVerification": "false",
        }
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')

"""Whether a login can be used on this machine: its files, and a ticket from the KDC."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from walferry.admin.diagnosis.findings import Finding, looked, note, well, wrong
from walferry.base.errors import WalferryError
from walferry.base.security.gssapi import Credential
from walferry.base.security.keytab import KeytabError, principals, read_keytab
from walferry.base.security.login import Kerberos, Login, Tls
from walferry.base.security.tls import context_of
from walferry.base.security.waiting import within

TICKET_SECONDS = 20.0  # the Kerberos libraries wait for each KDC of a realm, one after the other


def login_findings(whose: str, login: Login) -> Iterator[Finding]:
    """Look at what a login names; nothing if the cluster is not secured. `whose` begins the name of each finding."""
    if login.kerberos is not None:
        if login.kerberos.keytab is not None:
            yield _keytab(f"{whose}: keytab", login.kerberos.keytab, login.kerberos.principal)
        yield _ticket(f"{whose}: ticket", login.kerberos)
    for what, tls in ((f"{whose}: TLS", login.tls), (f"{whose}: ZooKeeper's TLS", login.zookeeper.tls)):
        if tls is not None:
            yield _tls(what, tls)
    if (password := login.zookeeper.password_file) is not None:
        yield _password(f"{whose}: ZooKeeper's password", password)
    yield from _open_to_others(whose, login)


def _keytab(what: str, path: str, principal: str | None) -> Finding:
    try:
        entries = read_keytab(path)
    except KeytabError as error:
        return wrong(what, error)
    mine = [each for each in entries if each.principal == principal]
    if not mine:
        return wrong(
            what, f"{path} holds no key of {principal}; it holds keys of {principals(entries)}",
            "Correct principal or keytab of the connection, or have the key exported (kadmin: ktadd)",
        )  # fmt: skip
    newest = max(each.version for each in mine)
    kinds = sorted({each.encryption_name for each in mine if each.version == newest})
    return well(what, f"{path} holds a key of {principal}: version {newest}, {', '.join(kinds)}")


def _ticket(what: str, kerberos: Kerberos) -> Finding:
    """Get a ticket, and wait for it not for too long: a KDC that is silent must not hold up the rest."""
    credential = Credential(kerberos)
    credential.forget()  # tickets of its own, so that the KDC is asked
    try:
        within(TICKET_SECONDS, credential.get, str(credential))
    except TimeoutError:
        told = f"no KDC of {kerberos.realm or 'the realm'} has answered within {TICKET_SECONDS:g} s"
        settings = os.environ.get("KRB5_CONFIG", "/etc/krb5.conf")
        return wrong(what, told, f"See to the realm's kdc in {settings} and to the network from here (port 88, TCP and UDP)")
    except WalferryError as error:
        return wrong(what, error)
    return well(what, f"{'the KDC has given one' if kerberos.keytab else 'the credential cache has one'} for {credential}")


def _tls(what: str, tls: Tls) -> Finding:
    def look() -> str:
        context_of(tls)
        return f"authorities of {tls.ca}, {f'our certificate {tls.certificate}' if tls.certificate else 'no certificate of ours'}"

    return looked(what, look)


def _password(what: str, path: str) -> Finding:
    try:
        with open(path, "rb") as file:
            empty = not file.read(1024).strip()
    except OSError as error:
        return wrong(what, f"{path} cannot be read: {error.strerror}", "It must be on each machine that talks to the cluster")
    return wrong(what, f"{path} is empty") if empty else well(what, f"{path} can be read")


def _open_to_others(whose: str, login: Login) -> Iterator[Finding]:
    """Files with secrets that every user of this machine can read."""
    tls = [each for each in (login.tls, login.zookeeper.tls) if each is not None]
    secret = [
        login.kerberos.keytab if login.kerberos else None,
        *(path for each in tls for path in (each.key or each.certificate, each.key_password_file)),
        login.zookeeper.password_file,
    ]
    for path in dict.fromkeys(each for each in secret if each is not None):
        try:
            mode = os.stat(path).st_mode
        except OSError:  # which is told above
            continue
        if mode & stat.S_IROTH:
            advice = "chmod o-r, and give it to the user who runs this"
            yield note(f"{whose}: {path}", "every user of this machine can read it", advice)

"""Checks whether a login can be used on this machine: its files, and a ticket from the KDC."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial

from walferry.base.errors import WalferryError
from walferry.base.findings import Finding, checked, note, well, wrong
from walferry.base.security.gssapi import Credential
from walferry.base.security.keytab import KeytabError, problem_of, read_keytab
from walferry.base.security.login import Kerberos, Login, Tls
from walferry.base.security.tls import context_of
from walferry.base.security.waiting import within

TICKET_SECONDS = 20.0  # the Kerberos libraries wait for each KDC of a realm, one after the other


def login_findings(about: str, login: Login) -> Iterator[Finding]:
    """Check the files and the ticket of a login; nothing if the cluster is not secured. `about` says whose login it is."""
    if login.kerberos is not None:
        if login.kerberos.keytab is not None:
            yield _keytab(login.kerberos.keytab, login.kerberos.principal, about)
        yield _ticket(login.kerberos, about)
    for kind, tls in (("TLS", login.tls), ("ZooKeeper's TLS", login.zookeeper.tls)):
        if tls is not None:
            yield checked(kind, partial(_tls, tls), about)
    if (password := login.zookeeper.password_file) is not None:
        yield _password(password, about)
    yield from _open_to_others(about, login)


def _keytab(path: str, principal: str | None, about: str) -> Finding:
    try:
        entries = read_keytab(path)
    except KeytabError as error:
        return wrong("keytab", error, about=about)
    if (problem := problem_of(path, principal)) is not None:
        advice = "Correct principal or keytab of the connection, or have the key exported (kadmin: ktadd)"
        return wrong("keytab", problem, advice, about)
    mine = [each for each in entries if each.principal == principal]
    newest = max(each.version for each in mine)
    kinds = sorted({each.encryption_name for each in mine if each.version == newest})
    return well("keytab", f"{path} holds a key of {principal}: version {newest}, {', '.join(kinds)}", about)


def _ticket(kerberos: Kerberos, about: str) -> Finding:
    """Get a ticket, and wait only for a bounded time: a silent KDC must not hold up the other checks."""
    credential = Credential(kerberos)
    credential.forget()  # forget cached tickets, so that the KDC is asked
    try:
        within(TICKET_SECONDS, credential.get, str(credential))
    except TimeoutError:
        text = f"no KDC of {kerberos.realm or 'the realm'} has answered within {TICKET_SECONDS:g} s"
        settings = os.environ.get("KRB5_CONFIG", "/etc/krb5.conf")
        advice = f"See to the realm's kdc in {settings} and to the network from here (port 88, TCP and UDP)"
        return wrong("ticket", text, advice, about)
    except WalferryError as error:
        return wrong("ticket", error, about=about)
    from_where = "the KDC has given one" if kerberos.keytab else "the credential cache has one"
    return well("ticket", f"{from_where} for {credential}", about)


def _tls(tls: Tls) -> str:
    context_of(tls)
    return f"authorities of {tls.ca}, {f'our certificate {tls.certificate}' if tls.certificate else 'no certificate of ours'}"


def _password(path: str, about: str) -> Finding:
    kind = "ZooKeeper's password"
    try:
        with open(path, "rb") as file:
            empty = not file.read(1024).strip()
    except OSError as error:
        advice = "It must be on each machine that talks to the cluster"
        return wrong(kind, f"{path} cannot be read: {error.strerror}", advice, about)
    return wrong(kind, f"{path} is empty", about=about) if empty else well(kind, f"{path} can be read", about)


def _open_to_others(about: str, login: Login) -> Iterator[Finding]:
    """Yield findings on files with secrets that every user of this machine can read."""
    tls = [each for each in (login.tls, login.zookeeper.tls) if each is not None]
    secret = [
        login.kerberos.keytab if login.kerberos else None,
        *(path for each in tls for path in (each.key or each.certificate, each.key_password_file)),
        login.zookeeper.password_file,
    ]
    for path in dict.fromkeys(each for each in secret if each is not None):
        try:
            mode = os.stat(path).st_mode
        except OSError:  # an earlier finding reports it
            continue
        if mode & stat.S_IROTH:
            advice = "chmod o-r, and give it to the user who runs this"
            yield note(path, "every user of this machine can read it", advice, about)

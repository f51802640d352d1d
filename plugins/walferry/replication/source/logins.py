"""The login fields of a connection: our user or principal, and the requirements on the cluster's servers.

    principal               "walferry/host@REALM": Kerberos. Without a keytab, the tickets of kinit are used
    keytab                  path of the keytab with the principal's key
    protection              authentication, integrity or privacy: the weakest accepted from HBase's servers and NameNodes;
                            by default authentication for HBase's servers, integrity for NameNodes
    server_principals       principals of HBase's servers, "hbase/_HOST@REALM"; by default all in the principal's realm
    hosts                   hosts of a peer cluster with which the principal may be used, "*.west.example.com"; see peer_logins.py
    tls_ca                  path of the authorities that sign the servers' certificates: HBase's RPC goes by TLS
    tls_certificate, tls_key, tls_key_password_file             our own certificate, if the servers demand one
    zk_auth                 kerberos (default with a principal), digest or none (default without one)
    zk_server_principal     principal of ZooKeeper's servers, "zookeeper/_HOST"
    zk_user, zk_password_file                                   for digest
    zk_tls_ca, zk_tls_certificate, zk_tls_key, zk_tls_key_password_file     the same as above, for ZooKeeper
    user                    the user that RPCs carry without Kerberos

All paths are absolute, and must exist on each machine that talks to the cluster. Messages never repeat a wrong path: it may be a
secret that was put there by mistake.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from walferry.base.security.login import HOST, Kerberos, Login, Protection, Tls, ZooKeeperAuth, ZooKeeperLogin
from walferry.replication.source.cluster import SourceError

_TLS = ("ca", "certificate", "key", "key_password_file")
_KERBEROS = ("principal", "keytab", "protection", "server_principals", "hosts")
_ZK = ("zk_auth", "zk_server_principal", "zk_user", "zk_password_file")
LOGIN_FIELDS = ("user", *_KERBEROS, *(f"tls_{each}" for each in _TLS), *_ZK, *(f"zk_tls_{each}" for each in _TLS))
_FILES = {
    "keytab": "of the principal's keytab",
    "tls_ca": "of the authorities' certificates (PEM)",
    "tls_certificate": "of our own certificate (PEM)",
    "tls_key": "of the certificate's private key (PEM)",
    "tls_key_password_file": "of a file with the key's password",
    "zk_password_file": "of a file with the password",
}
_PRINCIPAL = re.compile(r"[^/@\s]+(/[^/@\s]+)?@[^/@\s]+")
_SERVICE = re.compile(r"[^/@\s]+(/[^/@\s]+)?(@[^/@\s]+)?")
_HOSTS = re.compile(r"[A-Za-z0-9_*]([A-Za-z0-9._*-]*[A-Za-z0-9_*])?")
_LISTS = {
    "server_principals": (
        _PRINCIPAL,
        f"service/{HOST}@REALM or service/host@REALM, as hbase.master.kerberos.principal and "
        "hbase.regionserver.kerberos.principal are",
    ),
    "hosts": (
        _HOSTS,
        "a host's name, or a pattern such as '*.west.example.com', of the peer cluster's servers that the principal may be used "
        "with",
    ),
}
MAX_PATH_CHARS = 4000
MAX_NAME_CHARS = 1000
MAX_SHOWN_CHARS = 100


def login_of(where: str, extra: Mapping[str, Any], *, has_password: bool = False) -> Login:
    """Check a connection's fields and return the login. Raises a SourceError that names `where` and the field."""
    if has_password and any(field in extra for field in LOGIN_FIELDS if field != "user"):
        raise SourceError(
            f"{where}: it has a password, which cannot reach the Spark tasks unseen. Leave it empty, and name files with what is "
            "secret: keytab, tls_key_password_file, zk_password_file"
        )
    kerberos = _kerberos(where, extra)
    user = _user(where, extra.get("user"))
    if user is not None and kerberos is not None:
        raise SourceError(f"{where}: extra has both user and principal; with Kerberos the principal is the user: leave user out")
    return Login(user=user, kerberos=kerberos, tls=_tls(where, extra, "tls_"), zookeeper=_zookeeper(where, extra, kerberos))


def _kerberos(where: str, extra: Mapping[str, Any]) -> Kerberos | None:
    principal = extra.get("principal")
    if principal is None:
        for field in ("keytab", "protection", "server_principals", "hosts"):
            _only_with(where, extra, field, "principal", "our own principal, e.g. 'walferry@EXAMPLE.COM'")
        return None
    if not _is_name(principal, _PRINCIPAL) or HOST in principal:
        hint = f"; {HOST} stands for a server's host, so only server_principals may have it" if HOST in str(principal) else ""
        raise SourceError(
            f"{where}: extra's principal is {_shown(principal)}; it must be name@REALM or name/host@REALM, with its realm{hint}"
        )
    return Kerberos(
        principal=principal,
        keytab=_path(where, extra, "keytab"),
        protection=_protection(where, extra.get("protection")),
        servers=_names(where, extra, "server_principals"),
        hosts=_names(where, extra, "hosts"),
    )


def _protection(where: str, protection: Any) -> Protection | None:
    if protection is None:
        return None
    if protection not in list(Protection):
        known = ", ".join(repr(str(each)) for each in Protection)
        raise SourceError(
            f"{where}: extra's protection is {_shown(protection)}; it must be the weakest that is accepted, one of {known}, as "
            "hbase.rpc.protection calls them"
        )
    return Protection(protection)


def _names(where: str, extra: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Return the items of a field that takes a list, or a text split by commas. Raises SourceError."""
    given, (form, what) = extra.get(field, ()), _LISTS[field]
    listed = [each.strip() for each in given.split(",")] if isinstance(given, str) else given
    listed = list(listed) if isinstance(listed, list | tuple) else [listed]
    for each in listed:
        if not _is_name(each, form):
            raise SourceError(f"{where}: extra's {field} has {_shown(each)}; each must be {what}")
    return tuple(listed)


def _tls(where: str, extra: Mapping[str, Any], prefix: str) -> Tls | None:
    ca = _path(where, extra, f"{prefix}ca")
    if ca is None:
        for field in _TLS[1:]:
            _only_with(where, extra, f"{prefix}{field}", f"{prefix}ca", "the path of the authorities that are trusted")
        return None
    for field in ("key", "key_password_file"):
        _only_with(where, extra, f"{prefix}{field}", f"{prefix}certificate", "the path of the certificate that the key is for")
    return Tls(
        ca=ca,
        certificate=_path(where, extra, f"{prefix}certificate"),
        key=_path(where, extra, f"{prefix}key"),
        key_password_file=_path(where, extra, f"{prefix}key_password_file"),
    )


def _zookeeper(where: str, extra: Mapping[str, Any], kerberos: Kerberos | None) -> ZooKeeperLogin:
    auth = extra.get("zk_auth", ZooKeeperAuth.KERBEROS if kerberos else ZooKeeperAuth.NONE)
    if auth not in list(ZooKeeperAuth):
        known = ", ".join(repr(str(each)) for each in ZooKeeperAuth)
        raise SourceError(f"{where}: extra's zk_auth is {_shown(auth)}; it must be one of {known}")
    if auth == ZooKeeperAuth.KERBEROS and kerberos is None:
        raise SourceError(f"{where}: extra's zk_auth is 'kerberos', which takes a principal (and its keytab), and it has none")
    user, password_file = extra.get("zk_user"), _path(where, extra, "zk_password_file")
    if auth == ZooKeeperAuth.DIGEST and (not user or not password_file):
        missing = "zk_password_file, the path of a file with the password" if user else "zk_user"
        raise SourceError(f"{where}: extra's zk_auth is 'digest', which takes zk_user and zk_password_file; it has no {missing}")
    for field, needed in (("zk_user", "digest"), ("zk_password_file", "digest"), ("zk_server_principal", "kerberos")):
        if field in extra and auth != needed:
            raise SourceError(f"{where}: extra has {field}, which is for zk_auth = '{needed}', but zk_auth is '{auth}'")
    if user is not None and (not _is_name(user) or ":" in user):
        raise SourceError(f"{where}: extra's zk_user is {_shown(user)}; it must be a user's name in ZooKeeper, without a colon")
    server = extra.get("zk_server_principal", ZooKeeperLogin.server)
    if not _is_name(server, _SERVICE):
        raise SourceError(
            f"{where}: extra's zk_server_principal is {_shown(server)}; it must be service/{HOST} or service/host, with or "
            "without @REALM"
        )
    return ZooKeeperLogin(
        auth=ZooKeeperAuth(auth), server=server, user=user, password_file=password_file, tls=_tls(where, extra, "zk_tls_")
    )


def _only_with(where: str, extra: Mapping[str, Any], field: str, other: str, what: str) -> None:
    if field in extra and other not in extra:
        raise SourceError(f"{where}: extra has {field}, but no {other}; it must be {what}")


def _path(where: str, extra: Mapping[str, Any], field: str) -> str | None:
    path = extra.get(field)
    if path is None:
        return None
    if not isinstance(path, str) or not path.startswith("/") or not path.isprintable() or len(path) > MAX_PATH_CHARS:
        what = _FILES[field.removeprefix("zk_") if "tls" in field else field]
        raise SourceError(
            f"{where}: extra's {field} is not an absolute path (what it is instead is not shown, as it may be a secret); it must "
            f"be the path {what}, which is there on each machine that talks to the cluster"
        )
    return path


def _user(where: str, user: Any) -> str | None:
    if user is None:
        return None
    if not _is_name(user):
        raise SourceError(f"{where}: extra's user is {_shown(user)}; it must be the user name that RPCs carry, or be left out")
    return user


def _is_name(value: Any, form: re.Pattern[str] = re.compile(".+")) -> TypeGuard[str]:
    """Return whether this is a name of that form that can be sent and shown: no control characters, only valid UTF-8."""
    return isinstance(value, str) and len(value) <= MAX_NAME_CHARS and value.isprintable() and bool(form.fullmatch(value))


def _shown(value: Any) -> str:
    return repr(str(value)[:MAX_SHOWN_CHARS]) if isinstance(value, str) else type(value).__name__

"""Clients of HDFS: hdfs-native, with the login of the folder that is used.

hdfs-native takes its settings from HADOOP_CONF_DIR. What a login has goes before that, so one process can use secured and
unsecured clusters, each as another principal. Before a client is used, `login_problem` tries the login: hdfs-native itself waits
for ever for a NameNode that demands Kerberos of a client without it, and believes one that does not demand it of a client that
has it.

hdfs-native also believes what a NameNode says of its name, and hands on our ticket-granting ticket to it. So a client has tickets
for the NameNodes that have proved their names, and for nobody else: see base/security/tickets.py. At half of their life a new
client takes its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import fsspec
from google.protobuf.message import DecodeError

from walferry.base.security.gssapi import Credential, KerberosError, credential_of
from walferry.base.security.login import Kerberos
from walferry.base.security.tickets import NO_KEYS, Service, TicketCache
from walferry.base.texts import one_line
from walferry.hbase.files.logins import is_lent, login_at
from walferry.hbase.files.namenode import MAX_TEXT_CHARS, LoginRefused, NameNode, NameNodeError, NameNodeRefused, WrongNameNode
from walferry.hbase.files.namenodes import Server, configured_hosts, hadoop_settings, key_servers, namenodes, path_of

AUTHENTICATION = "hadoop.security.authentication"
DATA_PROTECTION = "dfs.data.transfer.protection"
_PRINCIPAL = "dfs.namenode.kerberos.principal"
_TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
_SIMPLE = "simple"
_NO_LOGIN = (
    "Give its cluster's connection a principal and a keytab, or set hadoop.security.authentication in HADOOP_CONF_DIR and kinit"
)

_proved: dict[Server, Service] = {}  # what each NameNode has last proved to be

T = TypeVar("T")


def new_file_system(url: str, more: Mapping[str, str]) -> Any:
    """fsspec's file system for a URL, with a client of its own that has some `more` settings. Nothing is connected to yet.

    It is used as its folder's login says; the client's `tickets` are those that it has, or None. Raises RuntimeError if
    hdfs-native does not know the NameNodes, KerberosError.
    """
    from hdfs_native import Client  # its library takes a while to load, and not all file systems are HDFS

    parts = urlsplit(url)
    server = parts.netloc.rpartition("@")[2]
    root = f"{parts.scheme}://{server}"
    # Without fsspec's reading of URLs, which makes the name of a name service lower case. Its cache keeps one a thread, for ever.
    system: Any = fsspec.get_filesystem_class(parts.scheme)(server, skip_instance_cache=True)
    system._strip_protocol = path_of  # its own ends a path at "#", "?" or ";", which names of families may have
    kerberos = login_in_effect(url)
    settings = {**_settings_of(kerberos), **more}
    tickets, by = None, {}
    if kerberos is not None and not _by_tokens(url):
        tickets = TicketCache(credential_of(kerberos), _services(url, kerberos))
        by = {"kerberos_principal": tickets.principal, "kerberos_keytab": NO_KEYS, "kerberos_cache": tickets.name}
    system.client = Client(root, settings, **by)
    system.client.tickets = tickets
    return system


def _services(url: str, kerberos: Kerberos) -> list[Service]:
    """Whom a client of a URL may have to prove itself to.

    A NameNode that could not be asked, such as one of two that is down, is taken to be what the others are, on its own host.
    """
    servers = namenodes(url)
    proved = {_proved[each] for each in servers if each in _proved}
    guessed = {Service(each.name, host) for each in proved for host, port in servers if (host, port) not in _proved}
    keys = {Service("HTTP", host) for host in key_servers(hadoop_settings())}
    return sorted(each for each in proved | guessed | keys if kerberos.may_meet(each.host))


def _by_tokens(url: str) -> bool:
    """Whether hdfs-native logs in by the delegation tokens of the environment, which only it knows how to use.

    It does so if there are no tickets: where there are both, a NameNode could have it take the tickets, and hand them on.
    """
    if login_at(url) is not None or not os.environ.get(_TOKENS):
        return False
    try:
        Credential(Kerberos()).get()
    except KerberosError:
        return True
    return False


def _settings_of(kerberos: Kerberos | None) -> dict[str, str]:
    """What a client must be told beside HADOOP_CONF_DIR.

    A secured cluster's DataNodes listen on ports below 1024, or demand SASL of their clients. hdfs-native uses SASL if the latter
    is set, to whatever, and never for such ports; what it takes then is the strongest protection that the DataNode offers.
    """
    if kerberos is None:
        return {}
    protection = hadoop_settings().get(DATA_PROTECTION) or kerberos.of_namenodes
    return {AUTHENTICATION: "kerberos", DATA_PROTECTION: str(protection)}


def login_in_effect(url: str) -> Kerberos | None:
    """As whom a URL is used: as its folder's login says, else as HADOOP_CONF_DIR and the environment do.

    The environment's tickets are used in a folder that a slave has named only with NameNodes that HADOOP_CONF_DIR names.
    """
    if (kerberos := login_at(url)) is not None:
        return kerberos
    known = hadoop_settings()
    if known.get(AUTHENTICATION, _SIMPLE) == _SIMPLE:
        return None
    return Kerberos(hosts=configured_hosts(known), only_hosts=True) if is_lent(url) else Kerberos()


def login_problem(url: str) -> str | None:
    """Say why no NameNode behind a URL lets us in, as whom, and what to do. None if one does, or if no login is needed.

    A login that no NameNode has taken is a problem too, and so is one that is not what it must be, whatever the others are:
    hdfs-native would go on without a login where it is not demanded.
    """
    if _by_tokens(url):
        return None
    problems, unclear, let_in = [], [], False
    for host, port in namenodes(url):
        try:
            ask(host, port, url, NameNode.space)
        except (KerberosError, LoginRefused) as error:
            problems.append(_described(host, port, login_in_effect(url), error))
            if isinstance(error, WrongNameNode) and urlsplit(url).scheme == "hdfs":  # viewfs may lead to other clusters, too
                break
        except NameNodeRefused:
            let_in = True  # a standby NameNode
        except (OSError, NameNodeError, DecodeError) as error:
            unclear.append(f"NameNode {host}:{port} has not taken a login: {one_line(str(error), MAX_TEXT_CHARS) or 'no answer'}")
        else:
            return None
    if not problems and not let_in and login_in_effect(url) is not None:
        problems = unclear
    return "; ".join(problems) or None


def ask(host: str, port: int, url: str, call: Callable[[NameNode], T]) -> T:
    """What `call` gets of a NameNode, as the login of the URL. Raises OSError, NameNodeError, KerberosError, DecodeError."""
    known = hadoop_settings()
    expected = known.get(f"{_PRINCIPAL}.pattern") or known.get(_PRINCIPAL)
    with NameNode(host, port, login_in_effect(url), expected) as namenode:
        if namenode.service is not None:
            _proved[host, port] = namenode.service
        return call(namenode)


def _described(host: str, port: int, kerberos: Kerberos | None, error: KerberosError | LoginRefused) -> str:
    if kerberos is None:
        return f"NameNode {host}:{port} demands Kerberos, and there is no login to it. {_NO_LOGIN}"
    who = kerberos.principal or "the principal of the credential cache"
    held = f", keytab {kerberos.keytab}" if kerberos.keytab else ""
    it = "it " if isinstance(error, LoginRefused) else ""
    return f"no login to NameNode {host}:{port} as {who}{held}: {it}{error}"

"""Makes clients of HDFS: hdfs-native, with the login of the used folder.

hdfs-native takes its settings from HADOOP_CONF_DIR. A login's settings override them, so one process can use secured and
unsecured clusters, each as another principal. Before a client is used, `login_problem` tries the login. Without this, hdfs-native
waits for ever if a NameNode demands Kerberos and the client has none, and trusts a NameNode that does not demand the client's
Kerberos login.

hdfs-native also believes the name that a NameNode gives, and forwards our ticket-granting ticket to it. So a client has tickets
only for NameNodes that have proved their names: see base/security/tickets.py. At half of the tickets' life a new client replaces
the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import fsspec

from walferry.base.security.gssapi import Credential, KerberosError, credential_of
from walferry.base.security.login import Kerberos
from walferry.base.security.tickets import NO_KEYS, Service, TicketCache
from walferry.base.texts import one_line
from walferry.hbase.files.logins import is_lent, login_at
from walferry.hbase.files.namenode import MAX_TEXT_CHARS, NO_ANSWER, LoginRefused, NameNode, NameNodeRefused, WrongNameNode
from walferry.hbase.files.namenodes import Server, configured_hosts, hadoop_settings, key_servers, namenodes, path_of

AUTHENTICATION = "hadoop.security.authentication"
DATA_PROTECTION = "dfs.data.transfer.protection"
_PRINCIPAL = "dfs.namenode.kerberos.principal"
_TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
_SIMPLE = "simple"
_NO_LOGIN = (
    "Give its cluster's connection a principal and a keytab, or set hadoop.security.authentication in HADOOP_CONF_DIR and kinit"
)

_proved: dict[Server, Service] = {}  # the principal that each NameNode has last proved

T = TypeVar("T")


def new_file_system(url: str, more: Mapping[str, str]) -> Any:
    """Return fsspec's file system for a URL, with a client of its own and `more` settings for it. It does not connect yet.

    The client uses the folder's login; its attribute `tickets` contains its tickets, or None. Raises RuntimeError if hdfs-native
    does not know the NameNodes, KerberosError.
    """
    from hdfs_native import Client  # this library takes a while to load, and not all file systems are HDFS

    parts = urlsplit(url)
    server = parts.netloc.rpartition("@")[2]
    root = f"{parts.scheme}://{server}"
    # This avoids fsspec's parsing of URLs, which puts the name of a name service into lower case, and its cache, which keeps one
    # file system for each thread, for ever.
    system: Any = fsspec.get_filesystem_class(parts.scheme)(server, skip_instance_cache=True)
    system._strip_protocol = path_of  # fsspec's own ends a path at "#", "?" or ";", which names of families may contain
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
    """Return the services to which a client of a URL may have to prove its identity.

    A NameNode that could not be asked, e.g. because it is down, is assumed to have the others' service name, on its own host.
    """
    servers = namenodes(url)
    proved = {_proved[each] for each in servers if each in _proved}
    guessed = {Service(each.name, host) for each in proved for host, port in servers if (host, port) not in _proved}
    keys = {Service("HTTP", host) for host in key_servers(hadoop_settings())}
    return sorted(each for each in proved | guessed | keys if kerberos.may_meet(each.host))


def _by_tokens(url: str) -> bool:
    """Return whether hdfs-native logs in by the environment's delegation tokens, which only hdfs-native can use.

    It does so only without tickets: if it had both, a NameNode could make it use the tickets and forward them.
    """
    if login_at(url) is not None or not os.environ.get(_TOKENS):
        return False
    try:
        Credential(Kerberos()).get()
    except KerberosError:
        return True
    return False


def _settings_of(kerberos: Kerberos | None) -> dict[str, str]:
    """Return the settings that a client needs in addition to HADOOP_CONF_DIR.

    A secured cluster's DataNodes listen on ports below 1024, or demand SASL of their clients. hdfs-native uses SASL if any data
    protection is set, but never for ports below 1024, and takes the strongest protection that the DataNode offers.
    """
    if kerberos is None:
        return {}
    protection = hadoop_settings().get(DATA_PROTECTION) or kerberos.of_namenodes
    return {AUTHENTICATION: "kerberos", DATA_PROTECTION: str(protection)}


def login_in_effect(url: str) -> Kerberos | None:
    """Return the login for a URL: its folder's login, or else the login of HADOOP_CONF_DIR and the environment.

    In a folder that a peer cluster has named, the environment's tickets are used only with NameNodes that HADOOP_CONF_DIR names.
    """
    if (kerberos := login_at(url)) is not None:
        return kerberos
    known = hadoop_settings()
    if known.get(AUTHENTICATION, _SIMPLE) == _SIMPLE:
        return None
    return Kerberos(hosts=configured_hosts(known), only_hosts=True) if is_lent(url) else Kerberos()


def login_problem(url: str) -> str | None:
    """Return why no NameNode of a URL lets us in, with our identity and the remedy. None if one does, or no login is needed.

    A login that no NameNode has accepted is a problem too: hdfs-native would go on without a login if none is demanded. So is a
    NameNode with a wrong identity, whatever the other NameNodes answer.
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
        except NO_ANSWER as error:
            unclear.append(f"NameNode {host}:{port} has not taken a login: {one_line(str(error), MAX_TEXT_CHARS) or 'no answer'}")
        else:
            return None
    if not problems and not let_in and login_in_effect(url) is not None:
        problems = unclear
    return "; ".join(problems) or None


def ask(host: str, port: int, url: str, call: Callable[[NameNode], T]) -> T:
    """Call a NameNode with the URL's login, and return the result. Raises one of NO_ANSWER."""
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

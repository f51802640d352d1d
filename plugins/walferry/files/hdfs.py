"""Clients of HDFS: hdfs-native, with the login of the folder that is used.

hdfs-native takes its settings from HADOOP_CONF_DIR. What a login has goes before that, so one process can use secured and
unsecured clusters, each as another principal. Tickets from a keytab lie in the memory of one client, which renews them. Before a
client is used, `login_problem` tries the login: hdfs-native itself waits for ever for a NameNode that demands Kerberos of a
client without it, and believes one that does not demand it of a client that has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import fsspec
from google.protobuf.message import DecodeError

from walferry.files.logins import login_at
from walferry.files.namenode import MAX_TEXT_CHARS, LoginRefused, NameNode, NameNodeError, NameNodeRefused, WrongNameNode
from walferry.files.namenodes import hadoop_settings, namenodes
from walferry.files.paths import path_of
from walferry.security.gssapi import KerberosError
from walferry.security.login import Kerberos
from walferry.texts import one_line

AUTHENTICATION = "hadoop.security.authentication"
DATA_PROTECTION = "dfs.data.transfer.protection"
_PRINCIPAL = "dfs.namenode.kerberos.principal"
_TOKENS = "HADOOP_TOKEN_FILE_LOCATION"
_NO_LOGIN = (
    "Give its cluster's connection a principal and a keytab, or set hadoop.security.authentication in HADOOP_CONF_DIR and kinit"
)

T = TypeVar("T")


def new_file_system(url: str, kerberos: Kerberos | None, more: Mapping[str, str]) -> Any:
    """fsspec's file system for a URL, with a client of its own that has some `more` settings. Nothing is connected to yet.

    Raises RuntimeError if hdfs-native does not know the NameNodes.
    """
    from hdfs_native import Client  # its library takes a while to load, and not all file systems are HDFS

    parts = urlsplit(url)
    server = parts.netloc.rpartition("@")[2]
    root = f"{parts.scheme}://{server}"
    # Without fsspec's reading of URLs, which makes the name of a name service lower case. Its cache keeps one a thread, for ever.
    system: Any = fsspec.get_filesystem_class(parts.scheme)(server, skip_instance_cache=True)
    system._strip_protocol = path_of  # its own ends a path at "#", "?" or ";", which names of families may have
    settings = {**_settings_of(kerberos), **more}
    if kerberos is not None and (kerberos.principal or kerberos.keytab):
        system.client = Client(root, settings, kerberos_principal=kerberos.principal, kerberos_keytab=kerberos.keytab)
    else:
        system.client = Client(root, settings)
    return system


def _settings_of(kerberos: Kerberos | None) -> dict[str, str]:
    """What a client must be told beside HADOOP_CONF_DIR.

    A secured cluster's DataNodes listen on ports below 1024, or demand SASL of their clients. hdfs-native uses SASL if the latter
    is set, to whatever, and never for such ports; what it takes then is the strongest protection that the DataNode offers.
    """
    known = hadoop_settings()
    if kerberos is None and known.get(AUTHENTICATION, "simple") == "simple":
        return {}
    protection = known.get(DATA_PROTECTION) or (kerberos or Kerberos()).protection
    return {AUTHENTICATION: "kerberos", DATA_PROTECTION: str(protection)}


def login_in_effect(url: str) -> Kerberos | None:
    """As whom hdfs-native will use a URL: as its folder's login says, else as HADOOP_CONF_DIR and the environment do."""
    if (kerberos := login_at(url)) is not None:
        return kerberos
    return Kerberos() if hadoop_settings().get(AUTHENTICATION, "simple") != "simple" else None


def login_problem(url: str) -> str | None:
    """Say why no NameNode behind a URL lets us in, as whom, and what to do. None if one does, or if no login is needed.

    A login that no NameNode has taken is a problem too, and so is one that is not what it must be, whatever the others are:
    hdfs-native would go on without a login where it is not demanded.
    """
    if login_at(url) is None and os.environ.get(_TOKENS):
        return None  # delegation tokens, which only hdfs-native uses
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
        return call(namenode)


def _described(host: str, port: int, kerberos: Kerberos | None, error: KerberosError | LoginRefused) -> str:
    if kerberos is None:
        return f"NameNode {host}:{port} demands Kerberos, and there is no login to it. {_NO_LOGIN}"
    who = kerberos.principal or "the principal of the credential cache"
    held = f", keytab {kerberos.keytab}" if kerberos.keytab else ""
    it = "it " if isinstance(error, LoginRefused) else ""
    return f"no login to NameNode {host}:{port} as {who}{held}: {it}{error}"

"""Finds the path and the NameNodes of a URL on HDFS, as hdfs-native does: host and port, or a name service of the Hadoop
configuration.

The URLs are Hadoop's, as HBase writes them. Nothing in a path is encoded, and no character begins a query or a fragment, so
HBase's names go into a path unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from xml.etree import ElementTree

_FILES = ("core-site.xml", "hdfs-site.xml")

Server = tuple[str, int]  # host and port


def path_of(url: str) -> str:
    """Return the literal path of a URL on HDFS; a path is returned unchanged."""
    if url.startswith("/"):
        return url
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return rest.rstrip("/") or "/"


def namenodes(url: str, environ: Mapping[str, str] = os.environ) -> list[tuple[str, int]]:
    """List host and port of each NameNode behind an hdfs:// or viewfs:// URL; empty if they are not known."""
    settings = hadoop_settings(environ)
    parts = _with_host(url, settings)
    # `hostname` is in lower case, but the keys of name services and mount tables are not, so take the name as written.
    name = parts.netloc.rpartition("@")[2] if parts.port is None else parts.hostname or ""
    if parts.scheme == "viewfs":
        links = f"fs.viewfs.mounttable.{name}.link"
        targets = [value for key, value in settings.items() if key.startswith(links)]
        return [server for target in targets if target.startswith("hdfs:") for server in namenodes(target, environ)]
    if parts.port is not None:
        return [(name, parts.port)]
    ids = _ids(settings, name)
    keys = [f"dfs.namenode.rpc-address.{name}.{each}" for each in ids] or [f"dfs.namenode.rpc-address.{name}"]
    return [server for key in keys if (server := _host_and_port(settings.get(key, "")))]


def name_services(url: str, environ: Mapping[str, str] = os.environ) -> dict[str, dict[str, Server]]:
    """Return the NameNodes, by their ids, of each name service behind an hdfs:// or viewfs:// URL."""
    settings = hadoop_settings(environ)
    parts = _with_host(url, settings)
    if parts.port is not None:
        return {}
    name = parts.netloc.rpartition("@")[2]
    if parts.scheme == "viewfs":
        targets = [value for key, value in settings.items() if key.startswith(f"fs.viewfs.mounttable.{name}.link")]
        behind = [name_services(target, environ) for target in targets if target.startswith("hdfs:")]
        return {service: servers for each in behind for service, servers in each.items()}
    addresses = {each: settings.get(f"dfs.namenode.rpc-address.{name}.{each}", "") for each in _ids(settings, name)}
    servers = {each: server for each, address in addresses.items() if (server := _host_and_port(address))}
    return {name: servers} if servers else {}


def server_of(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the NameNode or name service of a URL, without a user's name; empty if neither it nor fs.defaultFS names one."""
    return _with_host(url, hadoop_settings(environ)).netloc.rpartition("@")[2]


def _with_host(url: str, settings: Mapping[str, str]) -> SplitResult:
    """Return the parts of a URL. If it has no host (hdfs:///hbase), take the default file system's host, as Hadoop does."""
    parts = urlsplit(url)
    if parts.netloc or (default := urlsplit(settings.get("fs.defaultFS", ""))).scheme != parts.scheme:
        return parts
    return parts._replace(netloc=default.netloc)


def configured_hosts(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return the hosts of all NameNodes that a Hadoop configuration names."""
    addresses = [value for key, value in settings.items() if key.startswith("dfs.namenode.rpc-address")]
    default = urlsplit(settings.get("fs.defaultFS", ""))
    addresses += [default.netloc.rpartition("@")[2]] if default.scheme == "hdfs" else []
    return tuple(sorted({server[0] for address in addresses if (server := _host_and_port(address))}))


def key_servers(settings: Mapping[str, str]) -> list[str]:
    """Return the hosts of a Hadoop configuration's key servers for encryption zones ("kms://https@kms1;kms2:9600/kms")."""
    path = settings.get("hadoop.security.key.provider.path", "")
    hosts = path.partition("@")[2].partition("/")[0].rpartition(":")[0] if path.startswith("kms://") else ""
    return [host for host in hosts.split(";") if host]


def _ids(settings: Mapping[str, str], service: str) -> list[str]:
    """Return the ids of a name service's NameNodes."""
    return [each.strip() for each in settings.get(f"dfs.ha.namenodes.{service}", "").split(",") if each.strip()]


def web_addresses(url: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """List host:port of the web server of each NameNode behind an hdfs:// URL; empty if the configuration has none."""
    settings = hadoop_settings(environ)
    parts = _with_host(url, settings)
    service = parts.netloc.rpartition("@")[2] if parts.port is None else ""
    key = "dfs.namenode.http-address"
    ids = _ids(settings, service)
    keys = [f"{key}.{service}.{each}" for each in ids] or [f"{key}.{service}" if service else key, key]
    found = [server for each in dict.fromkeys(keys) if (server := _host_and_port(settings.get(each, "")))]
    # A NameNode that listens on all addresses is reachable at the URL's host.
    return [address(str(parts.hostname) if host in ("0.0.0.0", "::", "") else host, port) for host, port in found]


def address(host: str, port: int) -> str:
    """Return host:port as in URLs and Hadoop's settings, with an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _host_and_port(text: str) -> tuple[str, int] | None:
    host, _, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isascii() and port.isdigit() and "${" not in host else None


def hadoop_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Read the files of the Hadoop configuration that exist and are readable."""
    folder = environ.get("HADOOP_CONF_DIR") or (f"{environ['HADOOP_HOME']}/etc/hadoop" if environ.get("HADOOP_HOME") else None)
    found: dict[str, str] = {}
    for file in _FILES if folder else ():
        try:
            tree = ElementTree.parse(Path(str(folder)) / file)
        except (OSError, ElementTree.ParseError):  # hdfs-native reports it when it connects
            continue
        found |= {p.findtext("name", "").strip(): p.findtext("value", "").strip() for p in tree.iter("property")}
    return found

"""Reads the Airflow connection `hbase_source`, which describes the source cluster, and checks each field.

The connection is of type hbase_source, which pip's package registers (walferry.airflow.provider), or a generic one:

    host          ZooKeeper quorum: hosts separated by commas, each with or without its own port
    port          ZooKeeper client port of the hosts without their own (default 2181)
    extra         {"znode_parent": "/hbase", "wal_root": "hdfs://nn:8020/hbase", "walferry_root": "/walferry", "user": "hbase",
                   "queue_layout": "2.x", "quarantine": "hdfs://nn:8020/walferry-quarantine",
                   "archive": "s3a://bucket/walferry-archive", "archive_days": 30,
                   "replication_cluster_id": "east", "root_dir": "hdfs://nn:8020/hbase", "skip_bulk_loads": false,
                   "kafka_clients": {"kafka1:9092": "/etc/walferry/kafka.properties"},
                   "peers_root": "hdfs://nn:8020/hbase/peers",
                   "visibility_labels": "refuse", "replication.source.ratio": 0.2,
                   "key_provider": "jceks:///…?passwordFile=/…", "key_names": ["hbase"]}

replication_cluster_id, root_dir and skip_bulk_loads are for a source with hbase.replication.bulkload.enabled: see
replication/sinks/hbase/bulk_loads.py. visibility_labels decides about cells with visibility labels: see
replication/filters/visibility.py.

kafka_clients names files with settings for Kafka's clients, by brokers: see replication/sinks/kafka/clients.py.

peers_root is for a source with hbase.replication.peer.storage.impl=filesystem: see replication/source/peer_state.py.

archive is a folder to which shipped WALs are copied before they leave their queues, and archive_days says how long the copies are
kept: see replication/retention/archive.py.

HBase's replication settings have HBase's names: see replication/peers/settings.py.

The fields of a login (principal, keytab, …) are described in logins.py, the logins to the peer clusters in peer_logins.py.

The key provider is for encrypted WALs (walferry.hbase.crypto.provider). The connection's password is not used, and is refused
together with a key provider or a login: it could reach the Spark tasks only through arguments or settings that all users see.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

from walferry.base.records import parsed
from walferry.hbase.cluster_key import parse_cluster_key
from walferry.hbase.crypto.provider import KeyProviderError, KeyStoreUrl
from walferry.hbase.layout import QueueLayout
from walferry.replication.peers import settings as peer_settings
from walferry.replication.source.cluster import DEFAULT_CONN_ID, SourceCluster, SourceError, VisibilityLabels, canonical
from walferry.replication.source.fields import check_is_hbase, check_known, fields_of, is_conn_id, named, quorum_of
from walferry.replication.source.logins import LOGIN_FIELDS, login_of

MAX_DAYS = 36_500
_Read = Callable[[str, str, Any], Any]  # checks the value of a field of the extra: where it stands, its name, the value
# On other file systems a reader may see a stale length for ever after a file's writer has died, and cannot notice: they have no
# leases, or no call to recover a lease (webhdfs), or it depends on their server.
WAL_SCHEMES = ("file", "hdfs", "viewfs")
_FOLDERS = {
    "wal_root": "the URL of hbase.wal.dir (or hbase.rootdir, if that is not set), e.g. 'hdfs://nn:8020/hbase'",
    "root_dir": "the URL of hbase.rootdir, e.g. 'hdfs://nn:8020/hbase'",
    "peers_root": "the URL of the folder with the source's peers, <hbase.rootdir>/peers if HBase is not told otherwise, e.g. "
    "'hdfs://nn:8020/hbase/peers'; leave it out if they are in ZooKeeper",
    "archive": "the URL of a folder outside of wal_root for shipped WALs, e.g. 's3a://bucket/walferry-archive'",
    "quarantine": "the URL of a folder for broken WALs, e.g. 'hdfs://nn:8020/walferry-quarantine'",
}
_PASSWORD = re.compile(r"^[^/]*//[^/?#]*:[^/?#]*@")
_HARMLESS_URL = re.compile(r"[A-Za-z0-9+.:/_~\[\]-]{0,200}")  # the part of a wrong URL that is shown: no user, and no query
_ZNODE = re.compile(r"^(/[^/\s\x00]+)+$")


def from_connection(
    host: str | None,
    port: int | None,
    extra: Mapping[str, Any],
    conn_id: str | None = DEFAULT_CONN_ID,
    *,
    has_password: bool = False,
) -> SourceCluster:
    """Check a connection's fields and return the cluster. Raises a SourceError that names the connection and the field."""
    where = named(conn_id)
    extra = {name: value for name, value in extra.items() if value is not None}  # a form's field that was left empty
    check_known(where, extra, KNOWN_FIELDS)
    found = {
        _ATTRIBUTES.get(name, name): read(where, name, extra.get(name))
        for name, read in _READERS.items()
        if name in extra or name == "wal_root"
    }
    if found.get("archive"):
        _check_is_apart(where, found["archive"], found["wal_root"])
    if has_password and "key_provider" in extra:
        raise SourceError(
            f"{where}: it has a password, which cannot reach the Spark tasks unseen. Leave it empty, and tell the tasks where to "
            "find the key store's password by passwordFile or passwordEnv in key_provider"
        )
    if "peers_root" in found and found.get("queue_layout") == QueueLayout.TABLE:
        raise SourceError(
            f"{where}: extra has peers_root, and queue_layout is {QueueLayout.TABLE}; HBase 3 has its peers in ZooKeeper"
        )
    return SourceCluster(
        quorum=quorum_of(where, host, port),
        login=login_of(where, extra, has_password=has_password),
        replication=_replication(where, extra),
        **found,
    )


def from_env(conn_id: str = DEFAULT_CONN_ID, environ: Mapping[str, str] = os.environ) -> SourceCluster:
    """Read the connection in AIRFLOW_CONN_<ID>, JSON or a URI. Raises SourceError if it is not set or not valid."""
    name = f"AIRFLOW_CONN_{conn_id.upper()}"
    value = environ.get(name)
    if not value:
        raise SourceError(
            f"{name} is not set; give the source cluster there, as Airflow's JSON or URI of a connection, or name one that "
            f"Airflow keeps: walferry --conn-id {conn_id} …"
        )
    return from_text(value, conn_id)


def from_text(text: str, conn_id: str | None = DEFAULT_CONN_ID) -> SourceCluster:
    """Read a connection as Airflow writes it in the environment: JSON, or a URI. Raises SourceError.

    `conn_id` is None for the text of a command's option --source, which is not a named connection.
    """
    fields = fields_of(text, conn_id)
    check_is_hbase(conn_id, fields)
    return from_connection(fields.host, fields.port, fields.extra, conn_id, has_password=fields.has_password)


def _peer_conn_ids(where: str, field: str, peer_clusters: Any) -> dict[str, str]:
    """Return the ids of the peer clusters' connections, by canonical cluster keys."""
    form = 'it must be an object such as {"zk1,zk2:2181:/hbase": "hbase_peer"}'
    try:
        found = parsed(peer_clusters) if isinstance(peer_clusters, str) else peer_clusters  # a form or a URI contains text
    except ValueError:
        found = None
    if not isinstance(found, Mapping):
        raise SourceError(f"{where}: extra's {field} is not an object of connections by cluster keys; {form}")
    for key, conn_id in found.items():
        try:
            parse_cluster_key(str(key))
        except ValueError as error:
            raise SourceError(f"{where}: extra's {field}: {error}") from None
        if not isinstance(conn_id, str) or not is_conn_id(conn_id):
            raise SourceError(f"{where}: extra's {field} has no connection's id for {key}; {form}")
    return {canonical(key): conn_id for key, conn_id in found.items()}


def _kafka_clients(where: str, field: str, files: Any) -> dict[str, str]:
    """Return the files with settings of Kafka's clients, by brokers."""
    form = 'it must be an object such as {"kafka1:9092,kafka2:9092": "/etc/walferry/kafka.properties"}'
    try:
        found = parsed(files) if isinstance(files, str) else files  # a form or a URI contains text
        named = {peer_settings.brokers(str(servers)): path for servers, path in found.items()}
    except (ValueError, AttributeError) as error:
        raise SourceError(f"{where}: extra's {field} is not an object of files by brokers ({error}); {form}") from None
    if odd := [servers for servers, path in named.items() if not isinstance(path, str) or not path.startswith("/")]:
        raise SourceError(f"{where}: extra's {field} has no absolute path for {odd[0]}; {form}")
    return named


def _wal_root(where: str, field: str, url: Any) -> str:
    if not isinstance(url, str) or not url:
        raise SourceError(f"{where}: extra has no wal_root; it must be {_FOLDERS[field]}")
    folder = _folder(where, field, url)
    if (scheme := urlsplit(folder).scheme) not in WAL_SCHEMES:
        raise SourceError(
            f"{where}: extra's wal_root is {_shown(folder)}; on {scheme}:// Walferry cannot find out whether the length of a WAL "
            "that its server never closed is final, and could lose its last edits. It reads WALs on file://, hdfs:// and "
            "viewfs://: if they lie on HDFS, give the URL of its NameNode or name service"
        )
    return folder


def _peers_root(where: str, field: str, url: Any) -> str:
    folder = _folder(where, field, url)
    if (scheme := urlsplit(folder).scheme) not in WAL_SCHEMES:
        raise SourceError(
            f"{where}: extra's {field} is {_shown(folder)}; on {scheme}:// times may be too coarse to show that a peer was "
            "enabled and disabled again. Walferry reads peers on file://, hdfs:// and viewfs://"
        )
    return folder


def _folder(where: str, field: str, url: Any) -> str:
    if isinstance(url, str) and (
        _PASSWORD.search(url) or (url.partition(":")[0].lower() not in WAL_SCHEMES and set("?#") & set(url))
    ):
        raise SourceError(
            f"{where}: extra's {field} holds a password, or has ? or # in it as signed URLs do; credentials belong to the file "
            "system's own settings"
        )
    try:
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or not parts.path.startswith("/"):
        raise SourceError(f"{where}: extra's {field} is {_shown(url)}; it must be {_FOLDERS[field]}")
    return str(url).rstrip("/")


def _shown(url: Any) -> str:
    if not isinstance(url, str):
        return f"of type {type(url).__name__}"
    return repr(url) if _HARMLESS_URL.fullmatch(url) else "not shown, as it may hold a secret"


def _folder_or_none(where: str, field: str, url: Any) -> str | None:
    return _folder(where, field, url) if url else None


def _check_is_apart(where: str, archive: str, wal_root: str) -> None:
    """Check that the archive is not under HBase's root: HBase deletes files in some folders there."""
    ours, hbase = urlsplit(archive), urlsplit(wal_root)
    same_host = ours.netloc == hbase.netloc or not (ours.netloc and hbase.netloc)  # no host means the default file system
    if ours.scheme == hbase.scheme and same_host and f"{ours.path}/".startswith(f"{hbase.path}/"):
        raise SourceError(
            f"{where}: extra's archive {_shown(archive)} lies in wal_root, where HBase looks after the files; it must be "
            f"{_FOLDERS['archive']}"
        )


def _days(where: str, field: str, value: Any) -> float:
    try:
        days = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        days = float("nan")
    if not 0 < days <= MAX_DAYS:  # NaN fails this too
        raise SourceError(f"{where}: extra's {field} is {str(value)[:100]!r}; it must be a number of days, up to {MAX_DAYS:,}")
    return days


def _replication_cluster_id(where: str, field: str, name: Any) -> str:
    # The peer cluster's servers use it as a folder's name.
    if not isinstance(name, str) or not name or "/" in name or name in (".", ".."):
        raise SourceError(
            f"{where}: extra's {field} is {name!r}; it must be the source's hbase.replication.cluster.id, or be "
            "left out if hbase.replication.bulkload.enabled is not on there"
        )
    return name


def _flag(where: str, field: str, value: Any) -> bool:
    if value in (True, False):
        return bool(value)
    if value not in ("true", "false"):  # as text, from a URI
        raise SourceError(f"{where}: extra's {field} is {value!r}; it must be true or false")
    return bool(value == "true")


def _znode(where: str, field: str, path: Any) -> str:
    if not isinstance(path, str) or not _ZNODE.fullmatch(path) or not path.isprintable() or {".", ".."} & set(path.split("/")):
        raise SourceError(f"{where}: extra's {field} is {path!r}; it must be an absolute znode path such as '/hbase'")
    return path


def _one_of(kind: type[StrEnum]) -> _Read:
    def read(where: str, field: str, choice: Any) -> str:
        if choice not in list(kind):
            known = ", ".join(repr(str(each)) for each in kind)
            raise SourceError(f"{where}: extra's {field} is {choice!r}; it must be one of {known}")
        return str(choice)

    return read


def _replication(where: str, extra: Mapping[str, Any]) -> Mapping[str, str]:
    settings = {setting.name: str(extra[setting.name]) for setting in peer_settings.SHIPPING if setting.name in extra}
    try:
        peer_settings.parsed(settings)
    except ValueError as error:
        raise SourceError(f"{where}: extra's {error}") from None
    return settings


def _key_provider(where: str, field: str, url: Any) -> str:
    if not isinstance(url, str):
        raise SourceError(f"{where}: extra's {field} is {type(url).__name__}, not a URL")
    try:
        KeyStoreUrl.parse(url)
    except KeyProviderError as error:
        raise SourceError(f"{where}: extra's {field}: {error}") from None
    return url


def _key_names(where: str, field: str, names: Any) -> tuple[str, ...]:
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
        raise SourceError(f"{where}: extra's {field} is {names!r}; it must be the aliases of keys in the key store, as a list")
    return tuple(names)


_READERS: Mapping[str, _Read] = {
    "znode_parent": _znode,
    "wal_root": _wal_root,
    "walferry_root": _znode,
    "peer_clusters": _peer_conn_ids,
    "kafka_clients": _kafka_clients,
    "queue_layout": _one_of(QueueLayout),
    "quarantine": _folder_or_none,
    "archive": _folder_or_none,
    "archive_days": _days,
    "key_provider": _key_provider,
    "key_names": _key_names,
    "replication_cluster_id": _replication_cluster_id,
    "root_dir": _folder,
    "peers_root": _peers_root,
    "skip_bulk_loads": _flag,
    "visibility_labels": _one_of(VisibilityLabels),
}
_ATTRIBUTES = {"walferry_root": "root", "peer_clusters": "peer_conn_ids"}  # fields named differently in SourceCluster
KNOWN_EXTRAS = (*_READERS, *LOGIN_FIELDS)
KNOWN_FIELDS = (*KNOWN_EXTRAS, *(setting.name for setting in peer_settings.SHIPPING))

"""Reads an Airflow connection from the environment, as JSON or a URI, and checks the parts that all connections share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from walferry.base.records import NotARecord, parsed, parsed_object
from walferry.base.texts import did_you_mean, one_line
from walferry.replication.source.cluster import SourceError

CONN_TYPES = ("hbase_source", "hbase")
DEFAULT_ZK_PORT = 2181
MAX_NAMES_CHARS = 500
_UNTYPED = ("generic", "", None)  # types that may stand for any connection
_CONN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,249}")
_HARMLESS = re.compile(r"[A-Za-z0-9._; -]{0,100}")  # the part of a host that is shown: no URL, no password next to a mark
_HOST = re.compile(r"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$")


class Fields(NamedTuple):
    """The used fields of a connection. Its password is represented only by whether there is one."""

    conn_type: str | None
    host: str | None
    port: int | None
    extra: Mapping[str, Any]
    has_password: bool


def named(conn_id: str | None) -> str:
    """Return what errors call a connection. Without an id it is what a command's option --source gives."""
    return "the connection in --source" if conn_id is None else f"connection {conn_id!r}"


def check_is_hbase(conn_id: str | None, fields: Fields) -> None:
    """Check that a source's connection is one for HBase. Raises a SourceError that shows nothing of a foreign connection.

    A user who may trigger a run may name any connection, whose host or extra may be a secret.
    """
    if fields.conn_type not in CONN_TYPES and not (fields.conn_type in _UNTYPED and "wal_root" in fields.extra):
        raise SourceError(
            f"{named(conn_id)} is not that of an HBase cluster: its type must be {' or '.join(CONN_TYPES)}, or generic "
            "with a wal_root in its extra"
        )


def fields_of(text: str, conn_id: str | None) -> Fields:
    """Parse a connection as Airflow writes it in the environment. Raises a SourceError that repeats no password."""
    return (_from_json if text.lstrip().startswith("{") else _from_uri)(text, conn_id)


def check_known(where: str, extra: Mapping[str, Any], known: Sequence[str]) -> None:
    """Check that the extra contains only `known` fields. Raises SourceError."""
    if unknown := sorted(set(extra) - set(known)):
        names = one_line(", ".join(unknown), MAX_NAMES_CHARS)
        meant = did_you_mean(unknown, known)
        raise SourceError(f"{where}: extra has {names}, which Walferry does not know{meant}; it takes {', '.join(known)}")


def is_conn_id(text: str) -> bool:
    """Return whether the text may be a connection's id. Secrets backends make paths of ids, so an id has no slashes."""
    return bool(_CONN_ID.fullmatch(text))


def quorum_of(where: str, host: str | None, port: int | None) -> str:
    """Return the ensemble "h1:2181,h2:2181" of a connection's host and port. Raises SourceError."""
    if not host or not isinstance(host, str):
        what = "empty" if not host else repr(host) if isinstance(host, int | float) else f"of type {type(host).__name__}"
        raise SourceError(f"{where}: host is {what}; it must be the ZooKeeper quorum of the cluster, e.g. 'zk1,zk2,zk3'")
    members = []
    for member in host.split(","):
        match = _HOST.match(member.strip())
        if not match:
            what = repr(member.strip()) if _HARMLESS.fullmatch(member) else "an entry (not shown, as it may be a secret)"
            raise SourceError(f"{where}: host has {what}, which is neither a host nor host:port")
        members.append(f"{match[1]}:{_port(where, match[2] or port or DEFAULT_ZK_PORT)}")
    return ",".join(members)


def _port(where: str, port: Any) -> int:
    try:
        number = int(port)
    except (OverflowError, TypeError, ValueError):
        number = 0
    if not 0 < number < 65536:
        shown = repr(port) if isinstance(port, int | float) or str(port).isdecimal() else "not a number"
        raise SourceError(f"{where}: port is {shown}; it must be ZooKeeper's client port, 1 to 65535")
    return number


def _from_json(text: str, conn_id: str | None) -> Fields:
    try:
        fields = parsed_object(text)
        extra = fields.get("extra") or {}
        if isinstance(extra, str):
            extra = parsed(extra)
    except NotARecord as error:
        raise SourceError(f"{named(conn_id)}: not a connection, as {error}") from error
    if not isinstance(extra, dict):
        raise SourceError(f"{named(conn_id)}: extra is {type(extra).__name__}, not an object")
    return Fields(fields.get("conn_type"), fields.get("host"), fields.get("port"), extra, bool(fields.get("password")))


def _from_uri(text: str, conn_id: str | None) -> Fields:
    try:
        parts = urlsplit(text)
        parsed = not any("@" in text for text in (parts.path, parts.fragment, parts.query.partition("=")[0]))
    except ValueError:  # its text may repeat a password
        parsed = False
    if not parsed:
        raise SourceError(
            f"{named(conn_id)}: not a connection's URI; characters such as / ? # @ [ ] in its user or password must be "
            "percent-encoded"
        )
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    host = unquote(parts.netloc.rpartition("@")[2]) or None
    extra = _from_json(json.dumps({"extra": query["__extra__"]}), conn_id).extra if "__extra__" in query else query
    # Each host keeps its port, since a quorum may have several; the last port is also the connection's, as Airflow reads it.
    port = host.rpartition(",")[2].rpartition(":")[2] if host else ""
    kind = parts.scheme.replace("-", "_")  # as Airflow reads it
    return Fields(kind, host, int(port) if port.isdecimal() else None, extra, bool(parts.password))

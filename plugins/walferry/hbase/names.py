"""Parses and builds HBase's names of servers, WALs, tables and replication queues.

    server   = host "," port "," start code                    h.example.org,16020,1700000000000
    wal      = prefix "." timestamp [ ".meta" ]                h.example.org%2C16020%2C1700000000000.1700000000123
    prefix   = URL-encoded server [ "." provider ]             <server>.<server>.regiongroup-0  (hbase.wal.provider=multiwal)
    queue id = peer { "-" dead server }                        the oldest dead server comes first

A peer id contains no "-", but a host name may. So after the first "-", a "-" ends a server's name only if that name already has
two commas. A claim of the queue `q` of the server `s` names the queue `q-s`.

Paths and URLs are made of these names, so they must not contain a slash, a question mark, a hash or a control character.
Principals are made of host names, so host names must not contain "@" or a backslash either.

Source: HBase's AbstractFSWALProvider.getWALPrefixFromWALName, WAL.getTimestamp, ServerName, and
ReplicationQueueInfo.extractDeadServersFromZNodeString.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, quote_plus, unquote_plus

if TYPE_CHECKING:
    from walferry.base.protos import hbase_pb2 as pb

META_SUFFIX = ".meta"
_ODD = r"\s/?#\x00-\x1f\x7f-\x9f"
_SERVER = re.compile(rf"(?P<host>[^,@\\{_ODD}]+),(?P<port>\d{{1,5}}),(?P<start_code>\d{{1,19}})")
_ENCODED_SERVER = re.compile(r"(?P<server>[^,\s/]+?%2C\d{1,5}%2C\d{1,19})(?:\.|$)", re.IGNORECASE)
_PREFIX = re.compile(rf"[^{_ODD}]+")
_MAX_DIGITS = 19  # of a timestamp
MAX_WAL_NAME_CHARS = 2000  # no file system allows more than a few hundred in a name
# HBase allows the letters and digits of all languages. Java's letters are more than \w: they include vowel signs of Hindi. So
# this allows every character beyond ASCII except blanks, and HBase refuses the rest.
_LETTER = r"(?:\w|[^\x00-\x7f\s])"
NAMESPACE = re.compile(rf"{_LETTER}+")
TABLE = re.compile(rf"(?:(?P<namespace>{_LETTER}+):)?(?P<name>{_LETTER}(?:{_LETTER}|[-.])*)")


@dataclass(frozen=True, order=True)
class ServerName:
    """A RegionServer or Master process. `start_code` is its start time in milliseconds."""

    host: str
    port: int
    start_code: int

    def __str__(self) -> str:
        return f"{self.host},{self.port},{self.start_code}"

    @classmethod
    def parse(cls, text: str) -> ServerName:
        """Parse `host,port,startcode`. Raises a ValueError that names the text."""
        match = _SERVER.fullmatch(text)
        if match is None or not text.isprintable():  # this excludes characters that are invisible or reorder others
            raise ValueError(f"{text!r} is not a server name; expected host,port,startcode")
        return cls(match["host"], int(match["port"]), int(match["start_code"]))

    @classmethod
    def in_message(cls, host: str, port: int, start_code: int) -> ServerName:
        """Return the name of a server from a message or a row of hbase:meta.

        There HBase keeps a host's capitals, but it writes the host in small letters wherever it writes the whole name. Raises
        ValueError.
        """
        return cls.parse(f"{host.lower()},{port},{start_code}")

    @classmethod
    def parse_encoded(cls, text: str) -> ServerName:
        """Parse the URL-encoded form, `host%2Cport%2Cstartcode`. Raises a ValueError that names the text."""
        try:
            return cls.parse(unquote_plus(text))
        except ValueError as error:
            raise ValueError(f"{text!r} is not a URL-encoded server name; expected host%2Cport%2Cstartcode") from error

    def encoded(self) -> str:
        """Return the form that WAL names begin with."""
        return url_encoded(str(self))


class WalName(NamedTuple):
    """A parsed WAL file name. The files of one `group` are ordered by `timestamp` (milliseconds)."""

    text: str
    group: str
    timestamp: int
    server: ServerName | None  # None for names that do not begin with a server, as in very old releases
    is_meta: bool

    def __str__(self) -> str:
        return self.text


def parse_wal_name(text: str) -> WalName:
    """Parse a WAL's file name (no folders). Raises a ValueError that names the text."""
    if len(text) > MAX_WAL_NAME_CHARS:  # the cache keeps parsed names
        raise ValueError(f"{text[:100]!r}… with {len(text):,} characters is not a WAL's name: no file can have it")
    is_meta = text.endswith(META_SUFFIX)
    prefix, _, timestamp = text.removesuffix(META_SUFFIX).rpartition(".")
    shared = _group_and_server(prefix)
    if shared is None or not timestamp.isdecimal() or len(timestamp) > _MAX_DIGITS:
        raise ValueError(f"{text!r} is not a WAL's name; expected <server>.<timestamp> or <server>.<timestamp>.meta")
    return WalName(text, shared[0], int(timestamp), shared[1], is_meta)


def as_wal_name(text: str) -> WalName | None:
    """Return the parsed name as `parse_wal_name` does, or None if this is not a WAL's file name."""
    try:
        return parse_wal_name(text)
    except ValueError:
        return None


@lru_cache(maxsize=8192)
def _group_and_server(prefix: str) -> tuple[str, ServerName | None] | None:
    """Return the parts that all WALs of a group share, made once for all of them; None if no WAL's name can begin like this."""
    if _PREFIX.fullmatch(prefix) is None:
        return None
    encoded = _ENCODED_SERVER.match(prefix)
    return prefix, ServerName.parse_encoded(encoded["server"]) if encoded else None


def table_text(name: pb.TableName, errors: str = "strict") -> str:
    """Return a table's name as "table", or "namespace:table" outside the default namespace. HBase's names are UTF-8."""
    namespace, qualifier = name.namespace.decode("utf-8", errors), name.qualifier.decode("utf-8", errors)
    return qualifier if namespace in ("", "default") else f"{namespace}:{qualifier}"


def without_default_namespace(table: str) -> str:
    """Return a table's name as HBase writes it: without the namespace if that is the default one."""
    return table.removeprefix("default:")


def is_server_name(name: str) -> bool:
    """Return whether this is a server's name."""
    try:
        ServerName.parse(name)
    except ValueError:
        return False
    return True


def is_file_name(name: str) -> bool:
    """Return whether this is one component of a path, so that it can only mean a file in its folder."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def url_encoded(text: str) -> str:
    """Encode a text like Java's URLEncoder, which HBase uses for the names of WALs and of tasks."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def in_file_name(name: str) -> str:
    """Encode any text as a part of a file's name. HDFS does not allow ":" there, and no file system allows a slash."""
    return quote(name, safe="")


def family_folder(family: bytes) -> str:
    """Return the name of a family's folder, as HBase derives it from the family's bytes (Bytes.toString)."""
    return family.decode(errors="replace")


def family_text(family: bytes) -> str:
    """Return a family's name as users know it. `from_binary_text` reverses this: HBase allows no backslash in such a name."""
    return family.decode(errors="backslashreplace")


def in_snapshot_name(name: str) -> str:
    """Encode any text for a snapshot's name. The result contains ASCII letters and digits, "_" and ".", but no dash."""
    text = quote(name, safe="").replace(".", "%2E").replace("-", "%2D").replace("~", "%7E")
    return text.replace("%", ".")  # HBase allows ".", unlike "%"


@dataclass(frozen=True)
class QueueId:
    """A queue's peer and the dead servers that it was claimed from, in the order of the claims."""

    peer_id: str
    dead_servers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "-".join((self.peer_id, *self.dead_servers))

    @property
    def recovered(self) -> bool:
        """Whether the queue was claimed from a dead server. Such a queue gets no new WALs."""
        return bool(self.dead_servers)

    def claimed_from(self, server: str) -> QueueId:
        """Return the id that this queue gets when it is claimed from `server`."""
        return QueueId(self.peer_id, (*self.dead_servers, server))


def parse_queue_id(text: str) -> QueueId:
    """Parse the queue id in a znode's name. Raises a ValueError that names the text and the part that is not a server."""
    peer_id, dash, rest = text.partition("-")
    if not peer_id:
        raise ValueError(f"queue id {text!r} has no peer id before its first '-'")
    servers = tuple(_server_names(rest)) if dash else ()
    for server in servers:
        try:
            ServerName.parse(server)
        except ValueError as error:
            raise ValueError(f"queue id {text!r}: {error}") from error
    return QueueId(peer_id, servers)


def _server_names(text: str) -> list[str]:
    names, start, commas = [], 0, 0
    for i, char in enumerate(text):
        if char == ",":
            commas += 1
        elif char == "-" and commas >= 2:
            names.append(text[start:i])
            start, commas = i + 1, 0
    return [*names, text[start:]]

"""Names of servers and WALs.

    server  = host "," port "," startcode                      h.example.org,16020,1700000000000
    wal     = prefix "." timestamp [ ".meta" ]                 h.example.org%2C16020%2C1700000000000.1700000000123
    prefix  = URL-encoded server [ "." provider ]              <server>.<server>.regiongroup-0  (hbase.wal.provider=multiwal)

Paths and URLs are made of these names: none has a slash, a question mark, a hash or a control character in it.

Source: HBase's AbstractFSWALProvider.getWALPrefixFromWALName, WAL.getTimestamp and ServerName.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote_plus, unquote_plus

META_SUFFIX = ".meta"
_ODD = r"\s/?#\x00-\x1f\x7f-\x9f"
_SERVER = re.compile(rf"(?P<host>[^,{_ODD}]+),(?P<port>\d{{1,5}}),(?P<start_code>\d{{1,19}})")
_ENCODED_SERVER = re.compile(r"(?P<server>[^,\s/]+?%2C\d{1,5}%2C\d{1,19})(?:\.|$)", re.IGNORECASE)
_WAL = re.compile(rf"(?P<prefix>[^{_ODD}]+)\.(?P<timestamp>\d{{1,19}})")


@dataclass(frozen=True, order=True)
class ServerName:
    """A RegionServer or Master process; `start_code` is the time of its start in milliseconds."""

    host: str
    port: int
    start_code: int

    def __str__(self) -> str:
        return f"{self.host},{self.port},{self.start_code}"

    @classmethod
    def parse(cls, text: str) -> ServerName:
        """A server from `host,port,startcode`. Raises ValueError naming the text."""
        match = _SERVER.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not a server name; expected host,port,startcode")
        return cls(match["host"], int(match["port"]), int(match["start_code"]))

    @classmethod
    def parse_encoded(cls, text: str) -> ServerName:
        """A server from its URL-encoded form, `host%2Cport%2Cstartcode`. Raises ValueError naming the text."""
        try:
            return cls.parse(unquote_plus(text))
        except ValueError as e:
            raise ValueError(f"{text!r} is not a URL-encoded server name; expected host%2Cport%2Cstartcode") from e

    def encoded(self) -> str:
        """The form that WAL names begin with."""
        return quote_plus(str(self))


@dataclass(frozen=True)
class WalName:
    """A WAL's file name, taken apart. Files of one `group` follow each other by `timestamp` (milliseconds)."""

    text: str
    group: str
    timestamp: int
    server: ServerName | None  # None for names that do not begin with a server, as those of very old releases
    is_meta: bool

    def __str__(self) -> str:
        return self.text


def parse_wal_name(text: str) -> WalName:
    """A WAL's file name (no folders). Raises ValueError naming the text."""
    is_meta = text.endswith(META_SUFFIX)
    match = _WAL.fullmatch(text.removesuffix(META_SUFFIX))
    if match is None:
        raise ValueError(f"{text!r} is not a WAL's name; expected <server>.<timestamp> or <server>.<timestamp>.meta")
    encoded = _ENCODED_SERVER.match(match["prefix"])
    server = ServerName.parse_encoded(encoded["server"]) if encoded else None
    return WalName(text, match["prefix"], int(match["timestamp"]), server, is_meta)

"""The errors of working with files."""

from __future__ import annotations

from walferry.base.errors import WalferryError
from walferry.hbase.wal.errors import WalError


class StoreError(WalferryError):
    """The file system did not carry out a request; the message names the file or folder."""


class HdfsLoginFailed(StoreError):
    """The login at HDFS failed; the message names the NameNode, principal and keytab."""


class NoFileRight(StoreError):
    """The user lacks a right on a file or folder; on HDFS, the message names the user, the folder and its owner."""

    retry_helps = False


class NoActiveNameNode(StoreError):
    """No NameNode of a highly available HDFS is active; the message names the name service and each NameNode's state."""


class UnreadableBytes(StoreError, WalError):
    """The file exists, but its bytes from `offset` on are unreadable. The bytes before them are readable.

    If `lost`, every copy that the file system knows is damaged or gone, so only a copy from elsewhere helps.
    """

    def __init__(self, path: str, offset: int, reason: str, advice: str, *, lost: bool = False) -> None:
        WalError.__init__(self, path, offset, reason, advice)
        self.lost = lost

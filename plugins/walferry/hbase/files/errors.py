"""What goes wrong with files."""

from __future__ import annotations

from walferry.base.errors import WalferryError
from walferry.hbase.wal.errors import WalError


class StoreError(WalferryError):
    """The file system did not do what was asked of it; the message names the file or folder."""


class HdfsLoginFailed(StoreError):
    """HDFS and this process do not agree on who this is; the message names the NameNode, principal and keytab."""


class NoFileRight(StoreError):
    """The user may not do this to a file or folder; of HDFS, the message names the user, the folder and its owner."""

    retry_helps = False


class NoActiveNameNode(StoreError):
    """No NameNode of a highly available HDFS is active; the message names the name service and what each NameNode is."""


class UnreadableBytes(StoreError, WalError):
    """The file is there, but its bytes from `offset` on are not to be had. What is before them can be read.

    `lost` tells whether each copy that the file system knows is damaged or gone, so that only somebody else's copy helps.
    """

    def __init__(self, path: str, offset: int, reason: str, advice: str, *, lost: bool = False) -> None:
        WalferryError.__init__(self, f"{path} at byte {offset}: {reason}", advice)
        self.path = path
        self.offset = offset
        self.reason = reason
        self.lost = lost

"""What can be wrong with a WAL. Every error names the file, the offset in it, the reason and what to do."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class WalError(WalferryError):
    """A WAL cannot be read. `path` is as the caller gave it, `offset` counts bytes from the start of the file."""

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} at byte {offset}: {reason}", type(self).advice)
        self.path = path
        self.offset = offset
        self.reason = reason


class WalCorruptError(WalError):
    """The bytes at `offset` are not what a WAL has there. The whole entries before it have been handed out."""

    retry_helps = False
    advice = (
        "Compare with `hbase wal <file>` and with other replicas of the file; if the bytes are lost, the entries from here on "
        "are lost, and only an operator may give them up: broken_wals=quarantine"
    )


class WalOverrunError(WalCorruptError):
    """The entry at `offset` goes on where the entries of the file must have ended."""


class WalTornError(WalOverrunError):
    """The entry at `offset` goes on beyond the file, which ends like a trailer: it was cut off, or its lengths are damaged.

    The file has `have` bytes from `offset` on.
    """

    retry_helps = True

    def __init__(self, path: str, offset: int, reason: str, have: int) -> None:
        super().__init__(path, offset, reason)
        self.have = have


class WalUnclosedError(WalError):
    """The file's last bytes, at `offset`, look like a trailer but are not one, so they do not show that the file is closed."""

    advice = "It stays queued: wait until HBase has closed or archived it, or has begun to split its server's WALs"


class WalTruncatedError(WalError):
    """The file ends inside an entry or inside its header: at least `need` bytes are needed from `offset` on, `have` are there."""

    advice = (
        "Normal for a file still being written and for the last file of a crashed server: wait until it is closed, or, "
        "when its writer is gone for good, read it with partial_tail='stop'"
    )

    def __init__(self, path: str, offset: int, need: int, have: int) -> None:
        super().__init__(path, offset, f"the file ends early: {need} bytes or more are needed from here on, and {have} are there")
        self.need = need
        self.have = have


class WalUnsupportedError(WalError):
    """A sound WAL of a kind that cannot be read: its values or cells are in a codec that Walferry does not know."""

    retry_helps = False
    advice = "HBase's own tools read such files: `hbase wal` prints them, WALPlayer applies them to a cluster"


class WalKeyError(WalError):
    """A sound encrypted WAL whose key cannot be had."""

    retry_helps = False
    advice = "Nothing of the file is lost: once the key is there, reading goes on where it stopped"


class WalPositionError(WalError):
    """The position to start from is not the start of an entry of this file."""

    retry_helps = False
    advice = "Set it to an entry's start, or to 0 to ship the file again from its first entry: `walferry queues set-position`"

    @classmethod
    def within_entry(cls, path: str, position: int, entry: int) -> WalPositionError:
        """The error for a position within the entry at `entry`."""
        return cls(path, position, f"no entry begins here; the one at byte {entry} goes on beyond it")

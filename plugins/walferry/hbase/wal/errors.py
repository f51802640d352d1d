"""The errors of reading a WAL. Every error names the file, the offset in it, the reason and the remedy."""

from __future__ import annotations

from walferry.base.errors import WalferryError


class WalError(WalferryError):
    """A WAL cannot be read. `path` is as the caller gave it, `offset` counts bytes from the start of the file."""

    def __init__(self, path: str, offset: int, reason: str, advice: str = "") -> None:
        super().__init__(f"{path} at byte {offset}: {reason}", advice)
        self.path = path
        self.offset = offset
        self.reason = reason


class WalCorruptError(WalError):
    """The bytes at `offset` cannot be part of a WAL there. The reader has yielded the whole entries before them."""

    retry_helps = False
    advice = (
        "Compare with `hbase wal <file>` and with other replicas of the file; if the bytes are lost, the entries from here on "
        "are lost, and only an operator may give them up, by the DAG quarantine_wal"
    )


class WalOverrunError(WalCorruptError):
    """The entry at `offset` goes on beyond the point where the file's entries must end."""


class WalTornError(WalOverrunError):
    """The entry at `offset` goes on beyond the file, which ends like a trailer. It was cut off, or its lengths are damaged.

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
    """The file ends inside an entry or its header: it needs at least `need` bytes from `offset` on and has `have`."""

    advice = (
        "Normal for a file still being written and for the last file of a crashed server: wait until it is closed, or, "
        "when its writer is gone for good, read it with partial_tail='stop'"
    )

    def __init__(self, path: str, offset: int, need: int, have: int) -> None:
        super().__init__(path, offset, f"the file ends early: {need} bytes or more are needed from here on, and {have} are there")
        self.need = need
        self.have = have


class WalUnsupportedError(WalError):
    """A sound WAL that Walferry cannot read, because it does not know the codec of its values or cells."""

    retry_helps = False
    advice = "HBase's own tools read such files: `hbase wal` prints them, WALPlayer applies them to a cluster"


class WalKeyError(WalError):
    """The key of a sound encrypted WAL is not available."""

    retry_helps = False
    advice = "Nothing of the file is lost: once the key is there, reading goes on where it stopped"


class WalPositionError(WalError):
    """The position to start from is not the start of an entry of this file."""

    retry_helps = False
    advice = "Set it to an entry's start, or to 0 to ship the file again from its first entry: `walferry queues set-position`"

    @classmethod
    def within_entry(cls, path: str, position: int, entry: int) -> WalPositionError:
        """Return the error for a position within the entry at `entry`."""
        return cls(path, position, f"no entry begins here; the one at byte {entry} goes on beyond it")

"""Finds and opens a WAL wherever it lies now.

    <wal root>/WALs/<server>/<wal>                still open, or just closed
    <wal root>/WALs/<server>-splitting/<wal>      a dead server's WAL: HBase is recovering its edits
    <wal root>/oldWALs/<wal>                      archived
    <wal root>/oldWALs/<server>/<wal>             archived, with hbase.separate.oldlogdir.by.regionserver

A WAL moves down this list, never up, so a search in this order finds it even if it moves meanwhile. HBase moves files by renaming
them, so an open file stays readable. Opening a file that has moved since it was found raises FileNotFoundError, and the caller
looks for it again.

WALs may lie on local disks or HDFS only: other file systems do not show whether the length of a file that was never closed is
final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walferry.hbase.files.clients import at, scheme
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.logins import HDFS_SCHEMES
from walferry.hbase.files.systems import OpenWal, file_size, open_wal
from walferry.hbase.names import WalName

WALS = "WALs"
OLD_WALS = "oldWALs"
SPLITTING = "-splitting"


class WrongRoot(StoreError):
    """wal_root is not a folder where a cluster keeps its WALs."""


@dataclass(frozen=True)
class WalLocation:
    """The place where a WAL was found."""

    url: str
    size: int  # bytes; too small for a file on HDFS that is still being written
    archived: bool  # lies in oldWALs, so HBase no longer needs it
    splitting: bool = False  # lies in a dead server's folder, which the master has renamed to recover its WALs
    abandoned: bool = False  # lies in the folder of a dead server for which no master will do that

    @property
    def fenced(self) -> bool:
        """Whether no server can write to the file any more, once HDFS has recovered its length."""
        return self.archived or self.splitting or self.abandoned


def _exists(url: str) -> bool:
    try:
        file_size(url)
    except FileNotFoundError:
        return False
    return True


class WalStore:
    """The WALs of one cluster. `root` is the URL of hbase.wal.dir, or of hbase.rootdir if that is not set.

    A store with `look_only` only reads: it never asks a NameNode to recover a lease.

    With `master_absent` no master renames the folders of dead servers. HDFS's lease recovery then fences off a writer by itself.
    It closes the file, so the writer's next write fails. A server whose ZooKeeper session has ended cannot begin another WAL
    either: it has to queue the WAL first (ReplicationSourceManager.preLogRoll). On local disks nothing fences a writer off.
    """

    def __init__(self, wal_root: str, *, look_only: bool = False, master_absent: bool = False) -> None:
        self.root = wal_root.rstrip("/")
        self.look_only = look_only
        self._abandons = master_absent and scheme(self.root) in HDFS_SCHEMES
        self._is_a_root = False

    def check_root(self) -> None:
        """Check that the root contains a folder of WALs, as every cluster's root does. Raises WrongRoot, StoreError."""
        self._is_a_root = self._is_a_root or any(_exists(f"{self.root}/{folder}") for folder in (WALS, OLD_WALS))
        if self._is_a_root:  # not checked again for each missing WAL
            return
        what = f"the folder has neither {WALS} nor {OLD_WALS} in it" if _exists(self.root) else "there is no such folder"
        raise WrongRoot(
            f"wal_root {self.root}: {what}, so no WAL is found there, and it is not known how much there is to ship. "
            "Set wal_root in the connection's extra to the source's hbase.wal.dir, or to its hbase.rootdir if that is not set"
        )

    def locate(self, wal: WalName, dead_servers: Sequence[str] = ()) -> WalLocation | None:
        """Find the WAL's present place; its queue came from `dead_servers`. Returns None if it is in none of `places`.

        Raises StoreError if the file system does not answer.
        """
        for url in self.places(wal, dead_servers):
            try:
                archived, folder = url.startswith(f"{self.root}/{OLD_WALS}/"), url.rpartition("/")[0]
                splitting = folder.endswith(SPLITTING)
                abandoned = self._abandons and not archived and folder.rpartition("/")[2] in dead_servers
                return WalLocation(url, file_size(url), archived, splitting, abandoned)
            except FileNotFoundError:
                continue
        return None

    def places(self, wal: WalName, dead_servers: Sequence[str] = ()) -> list[str]:
        """List the URLs where the WAL can lie, in the order in which HBase moves it."""
        servers = list(dict.fromkeys([*([str(wal.server)] if wal.server else []), *dead_servers]))
        return [
            *(f"{self.root}/{WALS}/{server}/{wal.text}" for server in servers),
            *(f"{self.root}/{WALS}/{server}{SPLITTING}/{wal.text}" for server in servers),
            f"{self.root}/{OLD_WALS}/{wal.text}",
            *(f"{self.root}/{OLD_WALS}/{server}/{wal.text}" for server in servers),
        ]

    def open(self, location: WalLocation, *, patience: float = 0.0) -> OpenWal:
        """Open the file; see `open_wal`. Raises FileNotFoundError if it has moved, StoreError."""
        return open_wal(location.url, patience=patience)

    def has_no_writer(self, location: WalLocation) -> bool:
        """Return whether the length of a file that no server writes any more is final.

        On HDFS a file has a writer until it is closed, and until then readers see a stale length. So this asks the NameNode to
        close the file, as HBase does before it reads a WAL that was not closed cleanly. That may take some seconds, so call this
        again. A store with `look_only` only asks whether the file is closed. Raises FileNotFoundError, StoreError.
        """
        if not location.fenced:
            raise ValueError(f"{location.url} may have a live writer, which must not be disturbed")
        if (kind := scheme(location.url)) == "file":
            return True
        if kind not in HDFS_SCHEMES:
            raise StoreError(
                f"{location.url}: on {kind}:// nothing tells whether the length of a file that was never closed is final. "
                "wal_root must be on HDFS or a local disk"
            )
        if self.look_only:
            return not self.is_growing(location)
        return at(location.url, lambda system, path: bool(system.client.recover_lease(path)))

    def is_growing(self, location: WalLocation) -> bool:
        """Return whether the file was not closed and may therefore be longer than its reported length.

        Only HDFS has such files: the NameNode counts an open file's last block as a full one. Raises FileNotFoundError,
        StoreError.
        """
        if scheme(location.url) not in HDFS_SCHEMES:
            return False

        def ask(system: Any, path: str) -> bool:
            copies, used = system.client.get_file_info(path).replication, system.client.get_content_summary(path)
            return not copies or bool(used.space_consumed != used.length * copies)  # no copies: erasure coded

        return at(location.url, ask)

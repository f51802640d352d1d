"""Opening a WAL wherever it lies now.

    <wal root>/WALs/<server>/<wal>                written to, or just closed
    <wal root>/WALs/<server>-splitting/<wal>      of a dead server whose edits HBase is recovering
    <wal root>/oldWALs/<wal>                      archived
    <wal root>/oldWALs/<server>/<wal>             archived, with hbase.separate.oldlogdir.by.regionserver

A WAL moves down this list, never up, so looking in this order finds it even if it moves meanwhile. HBase moves files by renaming
them: one that is open can be read on; one that vanished between finding and opening raises FileNotFoundError, and is looked for
again by the caller.

WALs lie on local files and HDFS only: elsewhere nothing tells whether the length of a file that was never closed is final.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from walferry.files.systems import HDFS_SCHEMES, OpenWal, StoreError, file_size, file_system, open_wal, remote, scheme
from walferry.names import WalName

WALS = "WALs"
OLD_WALS = "oldWALs"
SPLITTING = "-splitting"


class WrongRoot(StoreError):
    """No cluster keeps its WALs at wal_root."""


@dataclass(frozen=True)
class WalLocation:
    """Where a WAL was found."""

    url: str
    size: int  # bytes; of a file on HDFS that is still written to, less than there is
    archived: bool  # lies in oldWALs: HBase is done with it
    splitting: bool = False  # lies in the folder of a dead server that the master has renamed to recover its WALs

    @property
    def fenced(self) -> bool:
        """Whether no server can write to it any more."""
        return self.archived or self.splitting


def _exists(url: str) -> bool:
    try:
        file_size(url)
    except FileNotFoundError:
        return False
    return True


class WalStore:
    """The WALs of one cluster. `root` is the URL of hbase.wal.dir, or of hbase.rootdir where that is not set.

    With `look_only` the file system is asked, but told nothing: no lease is recovered.
    """

    def __init__(self, wal_root: str, *, look_only: bool = False) -> None:
        self.root = wal_root.rstrip("/")
        self.look_only = look_only
        self._is_a_root = False

    def check_root(self) -> None:
        """Raises WrongRoot if the root has no folder of WALs, as each cluster's has; StoreError if that cannot be told."""
        self._is_a_root = self._is_a_root or any(_exists(f"{self.root}/{folder}") for folder in (WALS, OLD_WALS))
        if self._is_a_root:  # that is not asked again for each WAL that is missing
            return
        what = f"the folder has neither {WALS} nor {OLD_WALS} in it" if _exists(self.root) else "there is no such folder"
        raise WrongRoot(
            f"wal_root {self.root}: {what}, so no WAL is found there and how much is to be shipped is not known. Set wal_root in "
            "the connection's extra to the source's hbase.wal.dir, or to its hbase.rootdir if that is not set"
        )

    def locate(self, wal: WalName, dead_servers: Sequence[str] = ()) -> WalLocation | None:
        """The WAL's place now; `dead_servers` are those its queue came from. None if it is in none of `places`.

        Raises StoreError if the file system does not answer.
        """
        for url in self.places(wal, dead_servers):
            try:
                archived = url.startswith(f"{self.root}/{OLD_WALS}/")
                return WalLocation(url, file_size(url), archived, splitting=url.rpartition("/")[0].endswith(SPLITTING))
            except FileNotFoundError:
                continue
        return None

    def places(self, wal: WalName, dead_servers: Sequence[str] = ()) -> list[str]:
        """URLs at which the WAL can lie, in the order in which HBase moves it from one to the next."""
        servers = list(dict.fromkeys([*([str(wal.server)] if wal.server else []), *dead_servers]))
        return [
            *(f"{self.root}/{WALS}/{server}/{wal.text}" for server in servers),
            *(f"{self.root}/{WALS}/{server}{SPLITTING}/{wal.text}" for server in servers),
            f"{self.root}/{OLD_WALS}/{wal.text}",
            *(f"{self.root}/{OLD_WALS}/{server}/{wal.text}" for server in servers),
        ]

    def open(self, location: WalLocation) -> OpenWal:
        """The file there. Raises FileNotFoundError if it has moved on, StoreError."""
        return open_wal(location.url)

    def has_no_writer(self, location: WalLocation) -> bool:
        """Whether the length of a file to which no server writes any more is final.

        On HDFS a file has a writer until it is closed, and until then the length that others see is stale. There this asks the
        NameNode to close the file, as HBase itself does before it reads a WAL that was not closed cleanly; it may take some
        seconds, so ask again. A store that is `look_only` asks whether it is closed. Raises FileNotFoundError, StoreError.
        """
        if not location.fenced:
            raise ValueError(f"{location.url} is neither archived nor being split: its writer must not be disturbed")
        if (kind := scheme(location.url)) == "file":
            return True
        if kind not in HDFS_SCHEMES:
            raise StoreError(
                f"{location.url}: on {kind}:// nothing says whether the length of a file that was never closed is final. "
                "wal_root must be on HDFS or local files"
            )

        if self.look_only:
            return not self.is_growing(location)

        def ask() -> bool:
            system = file_system(location.url)
            return bool(system.client.recover_lease(system._strip_protocol(location.url)))

        return remote(location.url, ask)

    def is_growing(self, location: WalLocation) -> bool:
        """Whether the file was not closed, on a file system where it may be longer then than it seems.

        The NameNode counts the last block of such a file as a full one. Raises FileNotFoundError, StoreError.
        """
        if scheme(location.url) not in HDFS_SCHEMES:
            return False

        def ask() -> bool:
            system = file_system(location.url)
            path = system._strip_protocol(location.url)
            copies, used = system.client.get_file_info(path).replication, system.client.get_content_summary(path)
            return not copies or bool(used.space_consumed != used.length * copies)  # no copies: erasure coded

        return remote(location.url, ask)

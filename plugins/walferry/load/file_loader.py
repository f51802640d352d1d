"""Has a region of the peer cluster take files: the one way in which files of backlogs and of initial snapshots get there.

    PrepareBulkLoad at the region's server            makes <staging>/<token>, into which all may write
    note the folder                                   before any file is put there: see records.py, fence.py
    write the files to <token>/<name>                 then the server may move them, whatever user it runs as
    wait for the lock on the region                   if other tasks may load into the same region: see region_lock.py
    check that no other run or task has taken over
    BulkLoadHFile, call by call                       of cells with equal keys, the ones that are loaded last count
    check that these files have got a number          see numbered.py; otherwise write and load them again
    CleanupBulkLoad, and forget the note

All files of one call get the same sequence number, so each call has at most one file per family.

If a load fails between two steps, it begins again with another folder: a file loaded twice has the same cells in the same order.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.base.security.login import Login
from walferry.hbase.files.errors import UnreadableBytes
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.tables.errors import MissingTable
from walferry.hbase.tables.regions import Region
from walferry.hbase.tables.scan import Patience, RegionPlace
from walferry.hbase.tables.tables import Tables
from walferry.load.errors import NotLoaded, StaleLoad, is_refusal
from walferry.load.numbered import Destination, StagedFile, load_numbered
from walferry.load.records import Folder, Load, end, folders_of, forget
from walferry.load.staging import PATIENCE_SECONDS, delete_noted, delete_surely, new_folder
from walferry.replication.source.cluster import SourceCluster

LOADS = 3  # times that a call's files are written, if the peer cluster does not load or number them
TRIES = 5  # times that a load begins, if its files are not loaded: a NameNode may be away for some seconds

log = logging.getLogger(__name__)

HoldRegion = Callable[[str], AbstractContextManager[None]]
"""Waits for the lock on a region of the peer cluster, by its encoded name, and holds it for the length of a block."""

WriteFile = Callable[[str], StagedFile]
"""Writes a file of a load to a URL."""


class FolderNote(Protocol):
    """Notes which folder a load puts its files into, so that a run or task that takes over has it deleted first."""

    def note(self, folder: Folder) -> None:
        """Note the folder. Raises LoadOvertaken or Overtaken once another run or task has taken over."""

    def check(self) -> None:
        """Check that no other run or task has taken over. Raises LoadOvertaken or Overtaken."""

    def forget(self) -> None:
        """Forget the folder, which is deleted."""


@dataclass(frozen=True)
class FileLoader:
    """Loads files into regions of the table at `place`, with the peer cluster's `login`.

    `source_root` is the URL of the source's hbase.rootdir. `source_id` is the source's cluster id: the peer cluster's own
    replication does not send the files to that cluster.
    """

    place: RegionPlace
    login: Login
    source_root: str
    source_id: str
    holding_region: HoldRegion = lambda _: nullcontext()
    written_at_once: int = 1

    def load(
        self, target: Region, note: FolderNote, calls: Sequence[Sequence[WriteFile]], check_region: Callable[[], object]
    ) -> list[StagedFile]:
        """Write the files of all calls, and have them loaded into `target`, call by call. Returns the files.

        Before another try, `check_region` is called. It raises an error if loading into this region makes no sense any more.
        Raises that error, NotLoaded, LoadOvertaken, Overtaken, RpcError, RegionUnavailable, and the errors of writing.
        """
        loaded = list[StagedFile]()
        with noted_folder(self.place, target, self.login, self.source_root, note) as (server, token):
            to = Destination(self.place.table, target, token, self.login)
            pool = ThreadPoolExecutor(self.written_at_once, "write-files")
            try:
                begun = [_begin(pool, call, f"{token}/call{i}") for i, call in enumerate(calls)]
                for call, writing in zip(calls, begun, strict=True):
                    for tried in count(1):
                        files = [each.result() for each in writing]
                        try:
                            with self.holding_region(target.encoded_name):
                                note.check()
                                load_numbered(server, to, files, self.source_id)
                            break
                        except NotLoaded as error:
                            check_region()
                            if tried == LOADS:
                                raise
                            log.warning("files of %s are loaded again: %s", to, error)
                        writing = _begin(pool, call, f"{files[0].url}-again")
                    loaded += files
            finally:
                pool.shutdown(cancel_futures=True)  # before the folder is deleted
        return loaded


def _begin(pool: ThreadPoolExecutor, call: Sequence[WriteFile], url: str) -> list[Future[StagedFile]]:
    """Begin to write the files of a call, each to `url` with a number behind it.

    HBase keeps a file's name if one of its own files could have it, and such a load gets no number (HRegion.bulkLoadHFiles).
    """
    return [pool.submit(write, f"{url}-{number}") for number, write in enumerate(call)]


@contextmanager
def noted_folder(
    place: RegionPlace, target: Region, login: Login, source_root: str, note: FolderNote, *, surely: bool = False
) -> Iterator[tuple[Connection, str]]:
    """Have a folder made for a load into `target`, note it, and have it deleted after the block.

    Yields the connection to the region's server, and the folder's URL. If the peer cluster does not delete the folder, the note
    stays, so that the next run deletes the folder; with `surely` it is an error. Raises NotLoaded, RpcError, and those of `note`.
    """
    server, table, region = place.connection(target), place.table, target.name.hex()
    token = new_folder(server, table, target.name, source_root, login, lambda url: note.note(Folder(url, table, region)))
    try:
        yield server, token
    finally:
        try:
            problem = delete_noted(place, token, region, source_root)
        except MissingTable:  # then nothing can be loaded into it
            problem = None
        except WalferryError as error:  # also if the peer cluster's ZooKeeper is away: what is loaded is loaded
            if surely:
                raise
            problem = str(error)
        if problem is None:
            note.forget()
        else:
            log.warning("%s is left behind at the peer cluster for now: %s", token, problem)


def clean(load: Load, zk: KazooClient, peer_cluster: Tables, source: SourceCluster) -> None:
    """End a load of a backlog, have the folders that its job left deleted, and forget it unless it is done. Raises StaleLoad."""
    if not load.done:
        end(zk, load.path)
    clean_folders(load.path, zk, peer_cluster, source)
    if not load.done:
        forget(zk, load.path)


def clean_folders(record: str, zk: KazooClient, peer_cluster: Tables, source: SourceCluster) -> None:
    """Have the folders deleted that a load's tasks have left and noted with its record. The load has ended. Raises StaleLoad."""
    for note, folder in folders_of(zk, record).items():
        problem: str | None = "not even as text"
        if folder is not None:
            place, root = peer_cluster.place(folder.table), source.hbase_root
            problem = delete_surely(place, folder.token, folder.region, root, PATIENCE_SECONDS)
        if problem:
            raise StaleLoad(
                f"{note} names no folder that a load can have left at the peer cluster: {problem}",
                "Walferry has not written this znode. Nothing is shipped until it is deleted by hand",
            )
        forget(zk, note)


class Tries:
    """Decides whether a load that has failed begins again. Waits for a region that moves, or a server that restarts.

    The number of tries is bounded if the peer cluster does not load the files, or if a try ends with one of the `counted` errors.
    """

    def __init__(self, *counted: type[Exception], seconds: float = PATIENCE_SECONDS) -> None:
        self._counted: tuple[type[Exception], ...] = (NotLoaded, *counted)
        self._patience = Patience(seconds)
        self._failed = 0

    def progress(self) -> None:
        """Note that something was loaded: the next part gets all tries."""
        self._patience.progress()
        self._failed = 0

    def again(self, error: WalferryError | OSError) -> bool:
        """Wait before another try. Returns False if no try helps, or there have been enough."""
        self._failed += isinstance(error, self._counted)
        return _another_try_helps(error) and self._failed < TRIES and self._patience.wait()


def _another_try_helps(error: WalferryError | OSError) -> bool:
    lost = isinstance(error, UnreadableBytes) and error.lost  # no other reader gets the bytes either
    return not (lost or is_refusal(error) or (isinstance(error, WalferryError) and not error.retry_helps))

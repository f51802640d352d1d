"""Sends one bulk load: looks for its files before, and lets the source clean them after.

A sink that does not find a file passes over it without an error, and the rows in it would be lost silently. So the files are
looked for here first. A file that is gone is not a loss if the source no longer refers to it: either the slave has copied it
already, in a try that was killed between the acknowledgement and the position, or the peer did not exist yet when the file was
loaded.

A sink copies and loads the files within the call, however long that takes. It does not notice when a client gives up and sends
the same load again, and then loads the files twice (HBASE-30238). So a load is not sent again while the server that has it is at
work on it. Its call ends at the deadline, or when the server answers nothing else either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from kazoo.client import KazooClient

from walferry.base.errors import WalferryError
from walferry.base.texts import visible
from walferry.base.zk.client import read_all
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import file_size
from walferry.hbase.rpc.errors import RpcError
from walferry.replication.sinks.errors import SlaveUnreachable
from walferry.replication.sinks.hbase.bulk_loads import HFileSource
from walferry.replication.sinks.hbase.shipment import BulkLoad, Shipment

log = logging.getLogger(__name__)

MAX_TOLD_CHARS = 4000
COPY_BYTES_PER_SECOND = 5_000_000  # a sink that copies more slowly is asked whether it is still there


class HFileRefs(Protocol):
    """The source's references to the peer's HFiles. HBase keeps a file for as long as it is referred to."""

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        """Remove the references to these files."""


class BulkLoadFailed(WalferryError):
    """A bulk load could not be shipped: `what`, the `problem`, and what to do."""

    def __init__(self, what: str, problem: str, advice: str) -> None:
        super().__init__(f"{what}: {problem.rstrip('.')}", advice)


class HFileSender:
    """Sends the bulk loads of one group.

    `refs` is the znode under which the source keeps its references to the peer's HFiles; `lease` removes those of files that the
    slave has, if there is one. `call_seconds` is what a call takes that has nothing to copy.
    """

    def __init__(
        self,
        zk: KazooClient,
        refs: str,
        lease: HFileRefs | None,
        files: HFileSource | None,
        on_missing: Callable[[int], None],
        call_seconds: float,
    ) -> None:
        self._zk = zk
        self._refs = refs
        self._lease = lease
        self._files = files
        self._on_missing = on_missing
        self._call_seconds = call_seconds

    def ship(self, ship: Callable[..., object], shipment: Shipment, load: BulkLoad, deadline: float) -> None:
        """Have a sink copy and load the files, then let the source clean them; `ship` is a Shipper's.

        Raises BulkLoadFailed; SlaveUnreachable if no server answered at all, or there was no time for a first try; Stopped; and
        what the lease raises.
        """
        if shipment.entry_count:
            size = self._size(load, self._files) if self._files and load.files else 0
            try:
                ship(shipment, deadline, self._call_seconds + size / COPY_BYTES_PER_SECOND)
            except SlaveUnreachable as error:
                if not error.answered:
                    raise
                raise BulkLoadFailed(str(load), error.problem, self._advice()) from error
            except RpcError as error:
                raise BulkLoadFailed(str(load), str(error), self._advice()) from error
        if self._lease is not None:
            self._lease.remove_hfile_refs(load.names)

    def _size(self, load: BulkLoad, files: HFileSource) -> int:
        """The bytes of the files that are there. Raises BulkLoadFailed if one is gone that the source still refers to."""
        sizes = [self._size_of(load, file, files) for file in load.files]
        gone = [file for file, size in zip(load.files, sizes, strict=True) if size is None]
        if gone:
            refs = [f"{self._refs}/{file.rpartition('/')[2]}" for file in gone]
            kept = [ref for ref, znode in zip(refs, read_all(self._zk, refs), strict=True) if znode is not None]
            if kept:
                raise BulkLoadFailed(
                    str(load),
                    f"{len(kept)} of its files, which the source should keep, are neither in {' nor in '.join(files.places)}",
                    "Check root_dir in the extra of the connection. If they are lost, delete their znodes, "
                    f"such as {kept[0]}, and the next run goes on without them",
                )
            told = f"{load}: gone and no longer referred to, so they were shipped before: {', '.join(gone)}"
            log.warning("%s", visible(told, MAX_TOLD_CHARS))
            self._on_missing(len(gone))
        return sum(size or 0 for size in sizes)

    def _size_of(self, load: BulkLoad, file: str, files: HFileSource) -> int | None:
        for place in files.places:  # in the order in which HBase moves it
            try:
                return file_size(f"{place}/{file}")
            except FileNotFoundError:
                continue
            except (StoreError, OSError) as error:
                raise BulkLoadFailed(str(load), str(error), "Check root_dir in the extra of the connection") from error
        return None

    def _advice(self) -> str:
        if self._files is None:
            return "Nothing is lost: run again"
        return (
            f"The slave's servers must be able to read {self._files.places[0]}, with the configuration in "
            f"<hbase.replication.conf.dir>/{self._files.cluster_id}. Nothing is lost: correct that and run again"
        )

"""Sending one bulk load: its files are looked for before, and let go after.

A sink passes over a file that it finds nowhere, without an error, and so would the rows in it be lost without a word. So they are
looked for here first. A file that is gone is no loss if the source refers to it no more, as after a try that was killed between
its acknowledgement and the position: then it has been copied already, or the peer had not been there when it was loaded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from kazoo.client import KazooClient

from walferry.errors import WalferryError
from walferry.files.systems import StoreError, file_size
from walferry.rpc.connection import CALL_TIMEOUT_S
from walferry.rpc.errors import RpcError
from walferry.sinks.hbase.bulk_loads import HFileSource
from walferry.sinks.hbase.replicate import SlaveUnreachable
from walferry.sinks.hbase.shipment import BulkLoad, Shipment
from walferry.zk.client import read_all

log = logging.getLogger(__name__)

COPY_BYTES_PER_S = 5_000_000  # a sink that copies slower than this is asked again


class BulkLoadFailed(WalferryError):
    """A bulk load could not be shipped: `what`, the `problem`, and what to do."""

    def __init__(self, what: str, problem: str, advice: str) -> None:
        super().__init__(f"{what}: {problem.rstrip('.')}", advice)
        self.what = what
        self.problem = problem


class HFileSender:
    """Sends the bulk loads of one group.

    `refs` is the znode under which the source keeps its references to the peer's HFiles; `release(names)` removes some of them.
    """

    def __init__(
        self,
        zk: KazooClient,
        refs: str,
        release: Callable[[Sequence[str]], None],
        files: HFileSource | None,
        on_missing: Callable[[int], None],
    ) -> None:
        self._zk = zk
        self._refs = refs
        self._release = release
        self._files = files
        self._on_missing = on_missing

    def ship(self, ship: Callable[..., object], shipment: Shipment, load: BulkLoad, deadline: float) -> None:
        """Have a sink copy and load the files, then let the source clean them; `ship` is that of a Shipper.

        Raises BulkLoadFailed, what `ship` raises when it ran out of time or was stopped before its first try, and what the
        `release` raises.
        """
        if shipment.entry_count:
            size = self._size(load, self._files) if self._files and load.files else 0
            try:
                ship(shipment, deadline, CALL_TIMEOUT_S + size / COPY_BYTES_PER_S)
            except SlaveUnreachable as e:
                if not e.tries:
                    raise
                problem = f"not acknowledged by slave {e.slave} until the deadline, in {e.tries} tries; the last: {e.last_error}"
                raise BulkLoadFailed(str(load), problem, self._advice()) from e
            except RpcError as e:
                raise BulkLoadFailed(str(load), str(e), self._advice()) from e
        self._release(load.names)

    def _size(self, load: BulkLoad, files: HFileSource) -> int:
        """Bytes of the files that are there. Raises BulkLoadFailed if one is gone that the source still refers to."""
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
            log.warning("%s: gone, and no longer referred to, so shipped before: %s", load, ", ".join(gone))
            self._on_missing(len(gone))
        return sum(size or 0 for size in sizes)

    def _size_of(self, load: BulkLoad, file: str, files: HFileSource) -> int | None:
        for place in files.places:  # in the order in which HBase moves it
            try:
                return file_size(f"{place}/{file}")
            except FileNotFoundError:
                continue
            except (StoreError, OSError) as e:
                raise BulkLoadFailed(str(load), str(e), "Check root_dir in the extra of the connection") from e
        return None

    def _advice(self) -> str:
        if self._files is None:
            return "Nothing is lost: run again"
        return (
            f"The slave's servers must be able to read {self._files.places[0]}, with the configuration in "
            f"<hbase.replication.conf.dir>/{self._files.cluster_id}. Nothing is lost: correct that and run again"
        )

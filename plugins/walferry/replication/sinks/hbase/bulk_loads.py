"""Bulk loads: decides how HFiles that clients loaded into a region are handled, and sends them. The WAL holds only a descriptor.

    entry = WALKey, one cell METAFAMILY:HBASE::BULK_LOAD with a BulkLoadDescriptor: region, and the files of each family

A source writes scopes into these keys only with hbase.replication.bulkload.enabled (ReplicationSourceWALActionListener). It then
keeps the files, by `hfile-refs/<peer>/<file>`, until the peer has them. So each load's key says whether the load is to be
replicated. A sink then copies the files from the source's file system. For this the request names the source's directories and
its hbase.replication.cluster.id, which only the operator knows:

    scopes in the key, `replication_cluster_id` in the connection      shipped
    scopes, no `replication_cluster_id`, `skip_bulk_loads`             counted as BULK_LOAD; the source keeps the files
    scopes, neither                                                    an error: skipped, its rows would be missing for good
    no scopes                                                          counted as BULK_LOAD, as HBase does; its files are let go
    no files that the peer gets                                        counted as BULK_LOAD: a sink would have nothing to copy

Loads are filtered by scope and by the peer's families, as in HBase's BulkLoadCellFilter, but without its mistake: a filtered
descriptor keeps its cluster ids. Without these ids a ring of clusters would load the same files for ever.

Walferry removes the references to all files of a load. HBase 2.6.1 also makes references for files of LOCAL families, and for
tables with only such families, and would keep them for ever. With `skip_bulk_loads`, references to files to be replicated stay.

A load goes alone, because a sink applies a request's bulk loads after all its other edits.

A sink skips a file that it does not find, without an error, and the file's rows would be lost silently. So this module looks for
the files first. A missing file is not a loss if the source no longer refers to it: either the peer cluster has copied it already,
in a try that was killed between the acknowledgement and the position, or the peer did not exist yet when the file was loaded.

A sink copies and loads the files within the call, however long that takes. It does not notice when a client gives up and sends
the same load again, and then loads the files twice (HBASE-30238). So a load is not sent again while its server works on it. The
call ends at the deadline, or when the server does not answer other calls either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.protos.parsing import parse_message
from walferry.base.texts import visible
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.systems import file_size
from walferry.hbase.names import family_folder, is_file_name
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.wal.cells import BULK_LOAD, META_FAMILY, Cell, split_cells
from walferry.hbase.wal.errors import WalCorruptError, WalError
from walferry.hbase.wal.keys import from_message
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import KeptEdits, uuid_field
from walferry.replication.filters.rules import FilterRules, Reason
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.sinks.hbase.shipment import BulkLoad, Shipment
from walferry.replication.source.cluster import SourceCluster

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

MAX_NAMED_CHARS = 16 << 20  # of the paths that an entry names: the paths of 100,000 files
MAX_REPORTED_CHARS = 4000
COPY_BYTES_PER_SECOND = 5_000_000  # a sink that copies more slowly is asked whether it still works


class BulkLoadRefused(WalError):
    """A bulk load must be replicated, and the connection does not say how."""

    advice = (
        "Set replication_cluster_id in the connection's extra to the source's hbase.replication.cluster.id, or skip_bulk_loads "
        "to leave bulk loads out, and run again; until then this queue waits"
    )


@dataclass(frozen=True)
class HFileSource:
    """The place where the peer cluster's servers find the source's HFiles."""

    cluster_id: str  # the servers keep the configuration of its file system in <hbase.replication.conf.dir>/<cluster_id>
    root_dir: str

    @classmethod
    def of(cls, source: SourceCluster) -> HFileSource | None:
        """Return the place that the connection names; None if it names none."""
        if source.replication_cluster_id is None:
            return None
        return cls(source.replication_cluster_id, source.hbase_root)

    @property
    def places(self) -> tuple[str, str]:
        """The namespaces' directory, and the archive to which compactions move files."""
        return f"{self.root_dir}/data", f"{self.root_dir}/archive/data"


def take_bulk_loads(
    batch: WalBatch, kept: KeptEdits, rules: FilterRules, source: SourceCluster, path: str
) -> dict[int, Shipment]:
    """Return the WAL batch's bulk loads, by entry, as shipments. Notes each load's fate in `kept`.

    Raises WalCorruptError or BulkLoadRefused, naming `path`, at the first entry that cannot be shipped.
    """
    found = [int(i) for i in np.flatnonzero(kept.reason == Reason.BULK_LOAD)]
    if not found:
        return {}
    bulk_loads = _BulkLoads(rules, HFileSource.of(source), source.skip_bulk_loads)
    return {i: shipment for i in found if (shipment := bulk_loads.taken(batch, kept, i, path)) is not None}


class _BulkLoads:
    """The bulk loads that one peer gets from one source."""

    def __init__(self, rules: FilterRules, files: HFileSource | None, skip: bool) -> None:
        self._rules = rules
        self._files = files
        self._skip = skip and files is None
        self._mark = uuid_field(rules.source_id)

    def taken(self, batch: WalBatch, kept: KeptEdits, i: int, path: str) -> Shipment | None:
        index = batch.index
        offset = int(batch.positions[i])
        key_bytes = batch.buf[int(index.key_start[i]) : int(index.key_end[i])].tobytes()
        key = _parsed(pb.WALKey, key_bytes, "the WALKey of a bulk load", path, offset)
        if not key.scopes:
            return self._let_go(batch, kept, i, key, path)
        if self._skip:
            return None
        parts, files, released = list(kept.spans(batch, i)), list[str](), list[str]()
        count, reasons = int(kept.cells[i]), set[Reason]()
        for cell, descriptor, named in _descriptors(batch, i, key, path):
            released += named
            reason = self._filter(key, descriptor)
            wanted = [] if reason is not None else _paths(key, descriptor, path, offset)
            if not wanted:
                reasons.add(Reason.BULK_LOAD if reason is None else reason)
                continue
            files += wanted
            parts.append(cell.with_value(descriptor.SerializeToString()).data)
            count += 1
        cells, chosen = b"".join(parts), set(files)
        load = _load(key, tuple(files), tuple(file for file in released if file not in chosen))
        if files and self._files is None:
            raise BulkLoadRefused(path, offset, f"{load}: the source replicates bulk loads, and the connection does not say how")
        kept.reason[i] = Reason.SHIPPED if count else min(reasons)
        if not released:
            return None  # the rest of the entry is sent as usual, as `kept` says
        kept.cells[i], kept.size[i] = count, len(cells)
        if files:
            kept.rows[i] += 1 + len(files)  # as ReplicationSourceWALReader counts
        return self._shipment(key_bytes, bool(kept.marked[i]), cells, count, load, int(kept.rows[i]), key.write_time)

    def _let_go(self, batch: WalBatch, kept: KeptEdits, i: int, key: pb.WALKey, path: str) -> Shipment | None:
        """Return a shipment that only releases the files of a load that is not replicated; None if the load has no files.

        An error in the descriptor does not stop the queue, as the descriptor is not needed.
        """
        released = list[str]()
        try:
            for _, _, named in _descriptors(batch, i, key, path):
                released += named
        except WalCorruptError as error:
            log.warning("references to the files of a bulk load that is not replicated stay: %s", error)
        if not released:
            return None
        return self._shipment(b"", bool(kept.marked[i]), b"", 0, _load(key, (), tuple(released)), 0, key.write_time)

    def _filter(self, key: pb.WALKey, descriptor: pb.BulkLoadDescriptor) -> Reason | None:
        """Reduce `descriptor` to the files that the peer gets; return the reason if none are left."""
        tables, table = self._rules.tables, key.table_name
        scopes = {scope.family for scope in key.scopes if scope.scope_type == pb.REPLICATION_SCOPE_GLOBAL}
        stores = [store for store in descriptor.stores if store.family_name in scopes]
        if not stores:
            return Reason.NOT_GLOBAL
        stores = [store for store in stores if tables.wants(table, store.family_name)]
        if not stores:
            if tables.copied.get(table):
                return Reason.COPIED
            return Reason.DELETED if tables.deleted.get(table) is not None else Reason.NOT_IN_PEER
        if len(stores) < len(descriptor.stores):
            wanted = [type(store).FromString(store.SerializeToString()) for store in stores]
            del descriptor.stores[:]
            descriptor.stores.extend(wanted)
        ids = {from_message(i) for i in (*key.cluster_ids, *([key.cluster_id] if key.HasField("cluster_id") else []))}
        if self._rules.peer_cluster_id in ids or str(self._rules.peer_cluster_id) in map(str.lower, descriptor.cluster_ids):
            return Reason.FROM_PEER_CLUSTER
        return None if descriptor.replicate else Reason.BULK_LOAD

    def _shipment(
        self, key_bytes: bytes, marked: bool, cells: bytes, count: int, load: BulkLoad, rows: int, write_time: int
    ) -> Shipment:
        request = pb.ReplicateWALEntryRequest()
        if count:
            entry = request.entry.add(associated_cell_count=count)
            entry.key.MergeFromString(key_bytes + (b"" if marked else self._mark))
        if load.files and self._files:
            request.replicationClusterId = self._files.cluster_id
            request.sourceBaseNamespaceDirPath, request.sourceHFileArchiveDirPath = self._files.places
        encoded = request.SerializeToString()
        return Shipment(
            entries=(np.frombuffer(encoded, np.uint8),) if count else (),
            cells=(np.frombuffer(cells, np.uint8),) if count else (),
            entry_count=1 if count else 0,
            cell_count=count,
            row_count=rows,
            cell_bytes=len(cells),
            last_write_time=write_time,
            bulk_load=load,
        )


class HFileRefs(Protocol):
    """The source's references to the peer's HFiles. HBase keeps a file as long as a reference names it."""

    def remove_hfile_refs(self, names: Sequence[str]) -> None:
        """Remove the references to these files."""


class BulkLoadFailed(WalferryError):
    """A bulk load could not be shipped: `what`, the `problem`, and what to do."""

    def __init__(self, what: str, problem: str, advice: str) -> None:
        super().__init__(f"{what}: {problem.rstrip('.')}", advice)


@dataclass(frozen=True)
class HFileSender:
    """Sends the bulk loads of one group.

    `kept` returns the places of the source's references to these HFiles, if they are still there. `lease`, if given, removes the
    references to files that the peer cluster has copied. `call_seconds` is the time of a call without files to copy.
    """

    kept: Callable[[Sequence[str]], Sequence[str]]
    lease: HFileRefs | None
    files: HFileSource | None
    on_missing: Callable[[int], None]
    call_seconds: float

    def ship(self, ship: Callable[..., object], shipment: Shipment, load: BulkLoad, deadline: float) -> None:
        """Have a sink copy and load the files, then let the source clean them; `ship` is a Shipper's method.

        Raises BulkLoadFailed; PeerClusterUnreachable if no server answered, or the time was over; Stopped; the lease's errors.
        """
        if shipment.entry_count:
            size = self._size(load, self.files) if self.files and load.files else 0
            try:
                ship(shipment, deadline, self.call_seconds + size / COPY_BYTES_PER_SECOND)
            except PeerClusterUnreachable as error:
                if not error.answered:
                    raise
                raise BulkLoadFailed(str(load), error.problem, self._advice()) from error
            except RpcError as error:
                raise BulkLoadFailed(str(load), str(error), self._advice()) from error
        if self.lease is not None:
            self.lease.remove_hfile_refs(load.names)

    def _size(self, load: BulkLoad, files: HFileSource) -> int:
        """Return the bytes of the existing files. Raises BulkLoadFailed if one is gone that the source still refers to."""
        sizes = [self._size_of(load, file, files) for file in load.files]
        gone = [file for file, size in zip(load.files, sizes, strict=True) if size is None]
        if gone:
            if kept := self.kept([file.rpartition("/")[2] for file in gone]):
                raise BulkLoadFailed(
                    str(load),
                    f"{len(kept)} of its files, which the source should keep, are neither in {' nor in '.join(files.places)}",
                    "Check root_dir in the extra of the connection. If they are lost, delete the references to them, "
                    f"such as {kept[0]}, and the next run goes on without them",
                )
            reported = f"{load}: gone and no longer referred to, so they were shipped before: {', '.join(gone)}"
            log.warning("%s", visible(reported, MAX_REPORTED_CHARS))
            self.on_missing(len(gone))
        return sum(size or 0 for size in sizes)

    def _size_of(self, load: BulkLoad, file: str, files: HFileSource) -> int | None:
        for place in files.places:  # in the order in which HBase moves files
            try:
                return file_size(f"{place}/{file}")
            except FileNotFoundError:
                continue
            except (StoreError, OSError) as error:
                raise BulkLoadFailed(str(load), str(error), "Check root_dir in the extra of the connection") from error
        return None

    def _advice(self) -> str:
        if self.files is None:
            return "Nothing is lost: run again"
        return (
            f"The peer cluster's servers must be able to read {self.files.places[0]}, with the configuration in "
            f"<hbase.replication.conf.dir>/{self.files.cluster_id}. Nothing is lost: correct that and run again"
        )


def _load(key: pb.WALKey, files: tuple[str, ...], released: tuple[str, ...]) -> BulkLoad:
    table, region = (name.decode(errors="replace") for name in (key.table_name, key.encoded_region_name))
    return BulkLoad(table, region, files, released)


def _descriptors(batch: WalBatch, i: int, key: pb.WALKey, path: str) -> Iterator[tuple[Cell, pb.BulkLoadDescriptor, list[str]]]:
    """Yield the cells of an entry that describe bulk loads, each with its descriptor and the paths of its files."""
    data = batch.buf[int(batch.index.cells_start[i]) : int(batch.index.cells_end[i])].tobytes()
    offset, room = int(batch.positions[i]), MAX_NAMED_CHARS
    for cell in split_cells(data):
        if cell.column == (META_FAMILY, BULK_LOAD):
            descriptor = _parsed(pb.BulkLoadDescriptor, cell.value, "the descriptor of a bulk load", path, offset)
            named = _paths(key, descriptor, path, offset, room)
            room -= sum(map(len, named))
            yield cell, descriptor, named


def _parsed(kind: type[M], data: bytes, what: str, path: str, offset: int) -> M:
    try:
        return parse_message(kind, data)
    except DecodeError as error:
        raise WalCorruptError(path, offset, f"{what} cannot be parsed: {error}") from error


def _paths(key: pb.WALKey, descriptor: pb.BulkLoadDescriptor, path: str, offset: int, room: int = MAX_NAMED_CHARS) -> list[str]:
    """Return the files' paths below the namespaces' directory, built as in ReplicationSink.getHFilePath.

    Together they have at most `room` characters: a descriptor names a folder once, but each file's path repeats it.
    """
    namespace, _, table = key.table_name.rpartition(b":")
    found = []
    for store in descriptor.stores:
        folders = [name.decode(errors="replace") for name in (namespace or b"default", table, descriptor.encoded_region_name)]
        for file in store.store_file:
            names = [*folders, family_folder(store.family_name), file]
            if not all(map(is_file_name, names)):
                raise WalCorruptError(path, offset, f"a bulk load names {'/'.join(names)!r} as a file")
            found.append("/".join(names))
            room -= len(found[-1])
            if room < 0:
                raise WalCorruptError(path, offset, f"the paths of a bulk load's files have over {MAX_NAMED_CHARS:,} characters")
    return found

"""Copies one region: by its files, or else by a scan. Notes the copied region, so that no run copies it again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from walferry.base.errors import WalferryError
from walferry.base.records import Record
from walferry.hbase.cluster import cluster_id, visibility_labels
from walferry.hbase.tables.errors import BrokenSnapshot
from walferry.hbase.tables.scan import ALL_VERSIONS, ScanSpec
from walferry.hbase.tables.snapshots import SnapshotRegion
from walferry.hbase.tables.tables import Tables
from walferry.initial_snapshot.files_copy import COPIED_AT_ONCE, FoundFile, NeedsScan, clean, copy_files, find_files
from walferry.load.copy_records import CopyWay, Records, RegionRecord, is_copied
from walferry.load.errors import CopyRefused, Overtaken
from walferry.load.fence import Claim
from walferry.load.file_loader import FileLoader, Tries
from walferry.load.region_lock import holding_region
from walferry.replication.peers.peer_tables import peer_tables
from walferry.replication.peers.reading import Peer
from walferry.replication.source.cluster import SourceCluster, VisibilityLabels
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session, open_session
from walferry.shipping.rows import row_shipment

SYSTEM_LABEL = 1  # the ordinal of a label that HBase adds itself; no user's cell has it

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RegionTask:
    """A region to copy, with the families that the peer gets; `why_scan` says why its files are useless elsewhere.

    `attempt` names the attempt of the run that holds the peer lock, which has seen the peer's state at `peer_version`.
    """

    region: SnapshotRegion
    families: tuple[bytes, ...]
    why_scan: str = ""
    attempt: str = ""
    peer_version: int = 0


@dataclass(frozen=True)
class RegionOutcome:
    """How a region was copied, or why it was not."""

    name: str
    record: RegionRecord | None
    error: str = ""


@dataclass(frozen=True)
class CopiedRegions(Record):
    """How the regions of one Spark task were copied."""

    outcomes: tuple[RegionOutcome, ...]


@dataclass(frozen=True)
class RegionCopier:
    """Copies regions, one at a time, over its own connections."""

    session: Session
    peer: Peer
    source_tables: Tables
    peer_tables: Tables

    def copy(self, task: RegionTask) -> RegionOutcome:
        """Copy a region; try again for a while after errors that may pass. Never raises WalferryError or OSError."""
        tries = Tries()
        while True:
            try:
                return RegionOutcome(str(task.region), self._copy(task))
            except (WalferryError, OSError) as error:
                problem = f"{task.region}: {str(error).removeprefix(f'{task.region}: ')}"
                if not _may_pass(error) or not tries.again(error):
                    return RegionOutcome(str(task.region), None, problem)
            log.warning("trying again: %s", problem)

    def _copy(self, task: RegionTask) -> RegionRecord:
        region, place = task.region, self.peer_tables.place(task.region.table)
        records = Records(self.session, self.peer.id, Claim(self.session, self.peer.id, task.attempt, task.peer_version))
        held = records.held(region.table, region.encoded_name)
        if held.record is not None and is_copied(held.record, task.families):  # by an earlier try of this Spark task
            return held.record
        if held.record is not None and held.record.staging:  # an earlier try has left a folder
            held.put(held.record)  # before the folder is deleted: another run may have overtaken this one and own the folder
            clean(place, held.record, self.session.source.hbase_root)
        try:
            alone = partial(holding_region, self.session, self.peer.id, task.attempt)
            login, root = self.peer_tables.login, self.session.source.hbase_root
            source_id = str(cluster_id(self.session.zk, self.session.nodes))
            loader = FileLoader(place, login, root, source_id, alone, written_at_once=COPIED_AT_ONCE)
            record = copy_files(loader, region, self._found(task), held)
        except NeedsScan as why:
            clean(place, held.record, self.session.source.hbase_root)
            held.put(RegionRecord(why_scan=str(why)))
            check_labels(self.session, region, known=False)
            log.info("%s is scanned: %s", region, why)
            cells = copy_rows(self.session, self.peer, self.source_tables, region, task.families, task.attempt)
            record = RegionRecord(CopyWay.SCAN, cells=cells, why_scan=str(why))
        record = replace(record, families=tuple(family.hex() for family in task.families))
        held.put(record)
        return record

    def _found(self, task: RegionTask) -> list[FoundFile]:
        if task.why_scan:
            raise NeedsScan(task.why_scan)
        found = find_files(self.session.source.hbase_root, task.region)
        if any(each.info is None or each.info.has_tags for each in found):
            check_labels(self.session, task.region, known=all(each.info is not None for each in found))
        return found


def check_labels(session: Session, region: SnapshotRegion, *, known: bool) -> None:
    """Raise CopyRefused if cells of the region may have visibility labels, which mean something else at the peer cluster."""
    if session.source.visibility_labels == VisibilityLabels.SHIP:
        return
    if visibility_labels(session.zk, session.nodes).keys() - {SYSTEM_LABEL}:
        has = "has cells with tags, which may be visibility labels" if known else "may have cells with visibility labels"
        raise CopyRefused(
            f"{region} {has}, and an initial snapshot brings labels as the source's ordinals",
            "If both clusters have the same hbase:labels, set visibility_labels to ship in the connection's extra; else "
            "leave the table out",
        )


def copy_rows(
    session: Session, peer: Peer, tables: Tables, region: SnapshotRegion, families: Sequence[bytes], attempt: str
) -> int:
    """Copy all rows that the source now has within the region, through the peer's own sink. Returns the number of cells.

    `attempt` is the run's attempt that holds the peer lock. Raises RowsTaken, RightLost, PeerClusterUnreachable, WalferryError.
    """
    spec = ScanSpec(region.start, region.end, tuple(families), max_versions=ALL_VERSIONS, raw=True)
    with row_shipment(session, peer, attempt, f"{region.table},{region.encoded_name}", f"the rows of {region}") as shipment:
        for block in tables.scan(region.table, spec):
            shipment.add(region.table, families, block)
        shipment.flush(region.table)
    return shipment.cells


def copy_regions(source: SourceCluster, peer_id: str, tasks: Iterable[RegionTask]) -> Iterator[RegionOutcome]:
    """Copy regions one after the other. If a cluster cannot be reached at all, one outcome stands for all remaining regions."""
    left = list(tasks)
    try:
        with region_copier(source, peer_id) as copier:
            while left:
                outcome = copier.copy(left[0])
                left.pop(0)
                yield outcome
    except WalferryError as error:
        named = f"{left[0].region}" + (f" and {len(left) - 1} more regions" if len(left) > 1 else "")
        yield RegionOutcome(named, None, f"{named}: {error}")


def copy_some(source: SourceCluster, peer_id: str, tasks: Sequence[RegionTask]) -> CopiedRegions:
    """Copy regions, in one Spark task."""
    return CopiedRegions(tuple(copy_regions(source, peer_id, tasks)))


@contextmanager
def region_copier(source: SourceCluster, peer_id: str) -> Iterator[RegionCopier]:
    """Connect to both clusters for the length of a block. Raises WalferryError."""
    with open_session(source) as session:
        peer = read_peer(session, peer_id)
        with (
            peer_tables(peer, source.login_to(peer)) as peer_cluster,
            Tables(session.zk, session.nodes, login=source.login) as tables,
        ):
            yield RegionCopier(session, peer, tables, peer_cluster)


def _may_pass(error: WalferryError | OSError) -> bool:
    if isinstance(error, FileNotFoundError):  # HBase has moved the file since it was found
        return True
    return not isinstance(error, BrokenSnapshot | Overtaken | OSError)

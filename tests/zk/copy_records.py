"""Writes records of an initial snapshot in runs that hold the peer lock, for tests of these records."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.zk.hbase_znodes import DEAD, SERVER, wal
from walferry.load.copy_records import CopyWay, Records, RegionRecord, TableRecord
from walferry.load.fence import Claim
from walferry.replication.locks.peer_lock import holding_peer, turn_of
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.session import Session

TABLE = TableRecord("life", "border")
DONE = RegionRecord(CopyWay.FILES, files=2, bytes=10)
BEGUN = RegionRecord(staging="hdfs://peer/staging/token")
GROUP, OTHER = (wal(0, server).rpartition(".")[0] for server in (SERVER, DEAD))


@contextmanager
def writing(session: Session, at: SourceCluster, peer: str = "p", run: str = "run") -> Iterator[Records]:
    """Yield the records of a run that holds the peer lock."""
    with holding_peer(at, peer, run, run, turn_of(session, peer, run).number) as ours:
        yield Records(session, peer, Claim(session, peer, ours, disabled_guard(session, peer).version))

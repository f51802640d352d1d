"""A session with the source cluster: what the library needs to work on its queues and files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from kazoo.client import KazooClient

from walferry.base.zk.acls import share
from walferry.base.zk.client import connected
from walferry.hbase.files.store import WalStore
from walferry.hbase.layout import OwnZNodes, ZNodes
from walferry.replication.source.cluster import SourceCluster


@dataclass(frozen=True)
class Session:
    """The source cluster with a connected ZooKeeper client. A session with `look_only` changes nothing in the file system."""

    source: SourceCluster
    zk: KazooClient
    look_only: bool = False

    @cached_property
    def nodes(self) -> ZNodes:
        """HBase's paths in ZooKeeper."""
        return self.source.nodes

    @cached_property
    def own(self) -> OwnZNodes:
        """Walferry's own paths there."""
        return OwnZNodes(self.source.root, self.nodes)

    @cached_property
    def store(self) -> WalStore:
        """The cluster's WALs."""
        return WalStore(self.source.wal_root, look_only=self.look_only)


@contextmanager
def open_session(source: SourceCluster, *, look_only: bool = False) -> Iterator[Session]:
    """Connect to the source's ZooKeeper for the length of a block. Raises ConnectError, NoAccess."""
    with connected(source.quorum, login=source.login) as zk:
        yield writing_session(source, zk, look_only=look_only)


def writing_session(source: SourceCluster, zk: KazooClient, *, look_only: bool = False) -> Session:
    """The session of a connected client that creates znodes, which belong to those that HBase's own do. Raises as `share`."""
    session = Session(source, zk, look_only)
    share(zk, owners_of(session), session.own.root)
    return session


def owners_of(session: Session) -> tuple[str, ...]:
    """HBase's znodes to whose owners our own belong: those of the first one that exists."""
    return session.nodes.queues, session.nodes.base

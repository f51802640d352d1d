"""A session with the source cluster: the library's access to its queues and files."""

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
    """The source cluster with a connected ZooKeeper client. With `look_only` it changes nothing in the file system."""

    source: SourceCluster
    zk: KazooClient
    look_only: bool = False

    @cached_property
    def nodes(self) -> ZNodes:
        """HBase's paths in ZooKeeper."""
        return self.source.nodes

    @cached_property
    def own(self) -> OwnZNodes:
        """Walferry's own paths in ZooKeeper."""
        return OwnZNodes(self.source.root, self.nodes)

    @cached_property
    def store(self) -> WalStore:
        """The cluster's WALs."""
        return WalStore(self.source.wal_root, look_only=self.look_only, master_absent=self.source.master_absent)


@contextmanager
def open_session(source: SourceCluster, *, look_only: bool = False) -> Iterator[Session]:
    """Connect to the source's ZooKeeper while the block runs. Raises ConnectError, NoAccess."""
    with connected(source.quorum, login=source.login) as zk:
        yield writing_session(source, zk, look_only=look_only)


def writing_session(source: SourceCluster, zk: KazooClient, *, look_only: bool = False) -> Session:
    """Return a session of a connected client whose new znodes get the owners of HBase's znodes. Raises as `share`."""
    session = Session(source, zk, look_only)
    share(zk, owners_of(session), session.own.root)
    return session


def owners_of(session: Session) -> tuple[str, ...]:
    """List the HBase znodes whose owners also get our znodes: the first one that exists counts."""
    return session.nodes.queues, session.nodes.base

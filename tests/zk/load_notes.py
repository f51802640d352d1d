"""Records of loads and notes of their folders, for tests of their content and of their treatment."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.hbase.layout import ZNodes
from walferry.load.records import Folder, Load, LoadFolder
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.source.session import Session

GROUPS = {server: wal(0, server).rpartition(".")[0] for server in (SERVER, DEAD, OTHER)}
MINE, THEIRS = GROUPS[SERVER], GROUPS[DEAD]
REGION = b"t,a,17.0123456789abcdef0123456789abcdef."


def folder(name: str = "1k2", table: str = "t") -> Folder:
    region = table.encode() + REGION.removeprefix(b"t")
    return Folder(f"hdfs://peer:8020/hbase/staging/hbase__{table}__{name:0>63}", table, region.hex())


def done(*, last: int = 5, group: str = MINE, server: str = SERVER) -> Load:
    return Load("run", {group: wal(last, server)}, done=True, tables={"t": ("f",), "ns:u": ("f", "g")})


@pytest.fixture
def session(zk: KazooClient, hbase: HBaseZNodes) -> Session:
    return session_of(zk, hbase)


def lease_of(session: Session, group: str = MINE) -> Lease:
    return acquire(session, "p", group, "run")


def state_of(session: Session) -> tuple[str, int]:
    """The znode of the peer's state, and its version now."""
    path = session.nodes.peer_state("p")
    return path, session.zk.get(path)[1].version


def note_folder(zk: KazooClient, path: str, folder: Folder) -> str:
    """Note a folder with the record of a load. Returns the note's znode."""
    noted = LoadFolder(session_of(zk, ZNodes()), "p", path, ("", 0))
    noted.note(folder)
    return noted.znode


def check_folder(zk: KazooClient, path: str, note: str, peer_state: tuple[str, int]) -> None:
    """Check, as the task that has noted a folder."""
    noted = LoadFolder(session_of(zk, ZNodes()), "p", path, peer_state)
    noted.znode = note
    noted.check()

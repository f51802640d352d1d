"""Edits of earlier loads count as shipped, and files that killed loads left at the peer cluster are deleted before shipping."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.zk.hbase_znodes import OTHER, HBaseZNodes, wal
from tests.zk.load_notes import GROUPS, MINE, REGION, THEIRS, check_folder, done, folder, lease_of, note_folder, session, state_of
from walferry.base.zk.records import encode
from walferry.hbase.names import ServerName
from walferry.hbase.rpc import bulk_load
from walferry.hbase.rpc.errors import ConnectionFailed, RemoteError, RpcError
from walferry.hbase.tables.errors import MissingTable
from walferry.hbase.tables.regions import Region
from walferry.load import file_loader
from walferry.load.earlier_loads import loaded_before
from walferry.load.errors import LoadOvertaken, StaleLoad
from walferry.load.file_loader import clean
from walferry.load.records import Folder, begin_load, folders_of, loads_of, note_done
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session

__all__ = ["session"]  # a fixture

RANDOM = "0a" * 30  # the last part of a folder's name
LOADED = {b"t": {b"f"}, b"ns:u": {b"f", b"g"}}  # the families that done() has loaded

NewClient = Callable[[], KazooClient]


@dataclass
class PeerCluster:
    """Deletes folders. `on_delete` is called first, and may raise."""

    deleted: list[str] = field(default_factory=list)
    located: list[tuple[str, bytes]] = field(default_factory=list)
    on_delete: Callable[[str], None] = lambda token: None
    missing: frozenset[str] = frozenset()

    def place(self, table: str) -> Any:
        def locate(row: bytes) -> Region:
            if table in self.missing:
                raise MissingTable(table, "peer_cluster")
            self.located.append((table, row))
            return Region(REGION, b"a", b"", ServerName("rs", 1, 1))

        return SimpleNamespace(table=table, locate=locate, connection=lambda region: self)


@pytest.fixture
def peer_cluster(monkeypatch: pytest.MonkeyPatch) -> PeerCluster:
    stand_in = PeerCluster()

    def cleanup(server: PeerCluster, region: bytes, token: str) -> None:
        server.on_delete(token)
        server.deleted.append(token)

    @contextmanager
    def tables(peer: object, user: str | None) -> Iterator[PeerCluster]:
        yield stand_in

    monkeypatch.setattr(bulk_load, "cleanup", cleanup)
    monkeypatch.setattr("walferry.replication.peers.peer_tables.peer_tables", tables)
    monkeypatch.setattr(file_loader, "PATIENCE_SECONDS", 0)
    return stand_in


def before(session: Session, group: str = MINE) -> dict[bytes, frozenset[bytes]]:
    """Return the loaded families of the third WAL, as the holder of a group's lease sees them."""
    server = next(server for server, name in GROUPS.items() if name == group)
    return loaded_before(session, read_peer(session, "p"), group).families(wal(3, server))


def test_what_is_loaded_counts_for_its_own_group_and_its_own_wals(session: Session, peer_cluster: PeerCluster) -> None:
    with lease_of(session) as lease:
        note_done(session.zk, begin_load(session, "p", "run", [MINE], lease), done(last=3), lease)
        note_done(session.zk, begin_load(session, "p", "run", [MINE], lease), done(last=2), lease)
        found = loaded_before(session, read_peer(session, "p"), MINE)
    assert [found.families(wal(number)) for number in (2, 3, 4)] == [LOADED, LOADED, {}]
    assert not before(session, THEIRS)
    assert not peer_cluster.deleted


def test_what_killed_loads_of_a_group_have_left_is_deleted_and_those_of_other_groups_go_on(
    session: Session, peer_cluster: PeerCluster
) -> None:
    with lease_of(session) as lease:
        killed = begin_load(session, "p", "killed", [MINE, THEIRS], lease)
        alive = begin_load(session, "p", "alive", [GROUPS[OTHER]], lease)
        note_folder(session.zk, killed, folder("1"))
        note_folder(session.zk, killed, folder("2", table="ns_u"))
        note = note_folder(session.zk, alive, folder("3"))
    assert before(session) == {}
    assert sorted(peer_cluster.deleted) == sorted([folder("1").token, folder("2", table="ns_u").token])
    assert sorted(peer_cluster.located) == [("ns_u", b"a"), ("t", b"a")]
    assert [load.path for load in loads_of(session, "p")] == [alive]
    check_folder(session.zk, alive, note, state_of(session))


def test_a_task_that_outlives_its_job_gets_no_folder_while_the_others_are_deleted(
    session: Session, new_client: NewClient, peer_cluster: PeerCluster
) -> None:
    """The task would load its files after younger edits were shipped."""
    task, refused = new_client(), []
    with lease_of(session) as lease:
        path = begin_load(session, "p", "killed", [MINE], lease)
        note = note_folder(task, path, folder("1"))

    def on_delete(token: str) -> None:
        for go_on in (lambda: note_folder(task, path, folder("2")), lambda: check_folder(task, path, note, state_of(session))):
            with pytest.raises(LoadOvertaken):
                go_on()
            refused.append(token)

    peer_cluster.on_delete = on_delete
    before(session)
    assert refused == [folder("1").token] * 2
    assert loads_of(session, "p") == []


@pytest.mark.parametrize("group", [MINE, THEIRS])
def test_folders_that_are_left_of_a_load_that_is_done_are_deleted_before_any_group_is_shipped(
    session: Session, peer_cluster: PeerCluster, group: str
) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE, THEIRS], lease)
        note_folder(session.zk, path, folder())
        note_done(session.zk, path, done(), lease)
    assert before(session, group) == (LOADED if group == MINE else {})
    assert peer_cluster.deleted == [folder().token]
    assert loads_of(session, "p") == [done()]
    before(session, group)
    assert len(peer_cluster.deleted) == 1


@pytest.mark.parametrize(
    "error", [ConnectionFailed("rs", "refused"), RemoteError("rs", "java.io.IOException", "no", do_not_retry=True)]
)
def test_nothing_is_shipped_while_the_peer_cluster_does_not_delete_a_folder(
    session: Session, peer_cluster: PeerCluster, error: RpcError
) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE], lease)
        note = note_folder(session.zk, path, folder())

    def on_delete(token: str) -> None:
        raise error

    peer_cluster.on_delete = on_delete
    for _ in range(2):
        with pytest.raises(StaleLoad, match="Until then nothing is shipped"):
            before(session)
        assert list(folders_of(session.zk, path)) == [note]
    peer_cluster.on_delete = lambda token: None
    before(session)
    assert loads_of(session, "p") == []


def test_into_a_table_that_is_gone_nothing_can_be_loaded(session: Session, peer_cluster: PeerCluster) -> None:
    with lease_of(session) as lease:
        note_folder(session.zk, begin_load(session, "p", "run", [MINE], lease), folder())
    peer_cluster.missing = frozenset({"t"})
    before(session)
    assert (peer_cluster.deleted, loads_of(session, "p")) == ([], [])


@pytest.mark.parametrize(
    "note",
    [
        b"", b"{}", b"[" * 100_000, b"\xff", json.dumps({"token": 1, "table": "t", "region": ""}).encode(),
        encode(Folder("hdfs://peer:8020/hbase/data", "t", REGION.hex())),
        encode(Folder(f"hdfs://peer:8020/hbase/data/default/hbase__t__{RANDOM}", "t", REGION.hex())),
        encode(Folder(f"hdfs://peer:8020/hbase/staging/../../hbase__t__{RANDOM}", "t", REGION.hex())),
        encode(Folder(f"file:///etc/staging/hbase__t__{RANDOM}", "u", REGION.hex())),
        encode(Folder(folder().token, "t", "not hexadecimal")),
        encode(Folder(folder().token, "t", "")),
        encode(Folder(folder(table="u").token, "u", REGION.hex())),
    ],
)  # fmt: skip
def test_a_note_of_a_stranger_makes_the_peer_cluster_delete_nothing(
    session: Session, peer_cluster: PeerCluster, note: bytes
) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE], lease)
    session.zk.create(f"{path}/note", note)
    with pytest.raises(StaleLoad, match=f"{path}/note"):
        before(session)
    assert not peer_cluster.deleted
    session.zk.delete(f"{path}/note")
    before(session)
    assert loads_of(session, "p") == []


def test_a_record_that_cannot_be_read_is_cleaned_up_by_whoever_comes_first(session: Session, peer_cluster: PeerCluster) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "run", [MINE], lease)
    note_folder(session.zk, path, folder())
    session.zk.set(path, zlib.compress(b"[]"))
    assert before(session, GROUPS[OTHER]) == {}
    assert peer_cluster.deleted == [folder().token]
    assert loads_of(session, "p") == []


def test_two_runs_may_clean_up_after_one_that_was_killed(
    session: Session, new_client: NewClient, peer_cluster: PeerCluster
) -> None:
    with lease_of(session) as lease:
        path = begin_load(session, "p", "killed", [MINE, THEIRS], lease)
        for name in "12":
            note_folder(session.zk, path, folder(name))
    other = Session(session.source, new_client())
    (load,) = loads_of(other, "p")
    nested = []

    def on_delete(token: str) -> None:
        if not nested:
            nested.append(token)
            clean(load, other.zk, peer_cluster, other.source)  # type: ignore[arg-type]

    peer_cluster.on_delete = on_delete
    before(session)
    assert set(peer_cluster.deleted) == {folder(name).token for name in "12"}
    assert loads_of(session, "p") == []


def test_loads_of_an_earlier_peer_of_this_name_are_forgotten(
    session: Session, hbase: HBaseZNodes, peer_cluster: PeerCluster
) -> None:
    """The earlier peer's cluster may have been another one, which has the edits and the folders."""
    with lease_of(session) as lease:
        note_folder(session.zk, begin_load(session, "p", "run", [MINE], lease), folder())
        note_done(session.zk, begin_load(session, "p", "run", [MINE], lease), done(), lease)
    hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    hbase.add_peer("p")
    assert before(session) == {}
    assert not peer_cluster.deleted
    assert not session.zk.get_children(session.own.loads("p"))

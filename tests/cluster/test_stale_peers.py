"""Walferry touches no peer on which ZooKeeper and the Master disagree; on real clusters, with HBase's own tools."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from embedded.client import GLOBAL, JavaClient
from embedded.processes import start_java
from embedded.standalone import StandaloneCluster
from embedded.wire import put
from tests.cluster.spark_runs import run
from tests.cluster.walferry_runs import positions, source_of
from walferry.admin.creating import create, take_over
from walferry.admin.handing_back import begin_hand_back, finish_hand_back
from walferry.admin.peers import peer_admin
from walferry.admin.removing import remove
from walferry.admin.showing import describe
from walferry.base.zk.client import connected
from walferry.hbase.errors import PeerError
from walferry.hbase.values import PBUF
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch, recovery
from walferry.runs.values import Selected

IN_FILES = {"hbase.replication.peer.storage.impl": "filesystem"}
DISABLED = PBUF + b"\x08\x01"


@dataclass(frozen=True)
class Moved:
    """A cluster whose peers were moved to the file system. Since then `enabled` was enabled and `removed` removed."""

    cluster: StandaloneCluster
    client: JavaClient
    at: SourceCluster
    enabled: str = "enabled"
    removed: str = "removed"
    added: str = "added"  # added afterwards, so ZooKeeper has never contained it


@pytest.fixture(scope="module")
def moved(cluster_folder: Path, standalone_pair, java_client) -> Iterator[Moved]:
    """Moves the peers as the documentation of `hbase copyreppeers` says: copy, then start with the other setting."""
    key = standalone_pair.peer_cluster.address.cluster_key
    folder = cluster_folder / "moved"
    with StandaloneCluster(folder, name="moved") as cluster:
        client = java_client(cluster.address)
        client.create_table("t", {"f": GLOBAL})
        for peer in ("enabled", "removed"):
            client.add_managed_peer(peer, key)
        tool = start_java(
            "copyreppeers", "org.apache.hadoop.hbase.replication.CopyReplicationPeers", ["zookeeper", "filesystem"],
            folder=folder, classpath=[cluster.address.hbase_site.parent],
        )  # fmt: skip
        assert tool.popen.wait(120) == 0, tool.log_text()
        cluster.stop()
    again = StandaloneCluster(folder, IN_FILES, name="moved")
    again._port = cluster._port
    with again:
        at = source_of(again.address)
        client.enable_peer("enabled")
        client.remove_peer("removed")
        client.add_managed_peer("added", key)
        client.write("t", [put("row", {"f:q": b"v"})])
        client.roll_wals()
        yield Moved(again, client, at)


@contextmanager
def unchanged(at: SourceCluster, *peers: str) -> Iterator[None]:
    before = [positions(at, peer) for peer in peers]
    yield
    assert [positions(at, peer) for peer in peers] == before


def test_no_batch_ships_peers_that_were_moved_to_the_file_system(moved: Moved, tmp_path: Path) -> None:
    """ZooKeeper lists them all as DISABLED and managed, or does not contain them."""
    with connected(moved.at.quorum) as zk:
        assert zk.get(moved.at.nodes.peer_state("enabled"))[0].endswith(DISABLED)
    expected = {
        "enabled": r"the Master knows it with another state \(ENABLED, in ZooKeeper DISABLED\)",
        "removed": "the Master does not know such a peer",
    }
    chosen = batch.choose(moved.at, None)
    assert set(chosen.peers) == set(chosen.refused) == {"enabled", "removed", "added"}
    for peer, why in expected.items():
        with unchanged(moved.at, "removed"):
            for master_was_asked in (None, chosen):
                with pytest.raises(PeerError, match=why):
                    batch.plan(moved.at, peer, "run", chosen=master_was_asked)
    with pytest.raises(PeerError, match="no /hbase/replication/peers/added"):
        batch.plan(moved.at, "added", "run", chosen=chosen)
    done = run(moved.at, "enabled", "run", tmp_path)
    assert done.code == 1
    assert "nothing is shipped: peer enabled: the Master knows it with another state" in done.output


def test_old_copies_in_zookeeper_do_not_matter_once_the_connection_names_the_files(moved: Moved) -> None:
    folder = f"{moved.at.wal_root}/peers"
    with pytest.raises(PeerError, match=f"set peers_root in the connection's extra to {folder}$"):
        batch.plan(moved.at, "added", "run")
    at = replace(moved.at, peers_root=folder)
    chosen = batch.choose(at, None)
    assert (set(chosen.peers), chosen.refused) == ({"enabled", "added"}, [])
    with pytest.raises(PeerError, match="it is ENABLED, so its RegionServers ship it themselves"):
        batch.plan(at, "enabled", "run", chosen=chosen)
    with pytest.raises(PeerError, match="it does not exist"):
        batch.plan(at, "removed", "run", chosen=chosen)
    assert "removed" not in {peer.id for peer in moved.client.list_peers()}
    batch.plan(at, "added", "run", chosen=chosen)


def test_nor_are_they_taken_over_handed_back_or_removed(moved: Moved) -> None:
    before = moved.client.list_peers()
    with peer_admin(moved.at) as peers:
        shown = describe(peers, "enabled")
        assert "cannot be shipped by Walferry: peer enabled: the Master knows it with another state" in "\n".join(shown.lines())
        assert "the Master knows it with another state" in (shown.stale or "")
        calls: list[Callable[[], object]] = [
            lambda: take_over(peers, "enabled"),
            lambda: begin_hand_back(peers, "enabled", "new"),
            lambda: finish_hand_back(peers, "added", "enabled"),
            lambda: remove(peers, "enabled", drop_backlog=True),
            lambda: create(peers, "removed", before[0].cluster_key),
        ]
        for call in calls:
            with pytest.raises(PeerError, match=r"copyreppeers zookeeper filesystem"):
                call()
    assert moved.client.list_peers() == before


def test_a_queue_of_a_peer_that_only_the_master_knows_is_not_deleted_as_an_orphan(moved: Moved) -> None:
    dead = "gone,16020,1700000000000"
    queue = f"{moved.at.znode_parent}/replication/rs/{dead}/added"
    with connected(moved.at.quorum) as zk:
        zk.create(f"{queue}/gone%2C16020%2C1700000000000.1", makepath=True)
        with pytest.raises(PeerError, match=r"the Master knows it \(DISABLED\), but there is no"):
            recovery.select(moved.at, "added", "", True)
        with pytest.raises(PeerError, match="the Master knows it"):
            recovery.deal_with_orphans(moved.at, Selected(["added"]), True, "run")
        claimed = recovery.claim(moved.at, dead, "run")
        assert (claimed.moved, "added" in claimed.peers) == (0, False)
        assert zk.get_children(queue)
        zk.delete(queue.rpartition("/")[0], recursive=True)


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        (lambda client, peer: client.put_peer_configuration(peer, {"walferry.managed": "false"}), "config"),
        (lambda client, peer: client.enable_peer(peer), "state"),
    ],
    ids=["mark", "state"],
)
def test_what_the_master_alone_has_been_told_is_found_out(sides, peer, change, differs) -> None:
    """The Master's change reaches ZooKeeper, and the test undoes it there by hand."""
    nodes = sides.at.nodes
    paths = (nodes.peer(peer), nodes.peer_state(peer))
    with connected(sides.at.quorum) as zk:
        before = [zk.get(path)[0] for path in paths]
        assert batch.choose(sides.at, peer).refused == []
        change(sides.source, peer)
        for path, value in zip(paths, before, strict=True):
            zk.set(path, value)
        # Once it is enabled, its RegionServer ships it, and sets positions itself.
        still = unchanged(sides.at, peer) if differs == "config" else nullcontext()
        with still, pytest.raises(PeerError, match=f"the Master knows it with another {differs}"):
            batch.plan(sides.at, peer, "run")

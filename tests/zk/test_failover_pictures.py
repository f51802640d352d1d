"""The layouts that HBase's documentation draws of a failover: before, just before the clean-up, and after.

/hbase/replication/rs/<server>/2/<wal>            in one edition
/hbase/replication/rs/<server>/peers/2/<wal>      in the older edition
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, prefixed
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.hbase.values import encode_position
from walferry.replication.queues.claims import classic as claim_classic
from walferry.replication.queues.claims.claim import claim
from walferry.replication.source.cluster import SourceCluster

ONE, TWO, THREE = "1.1.1.1,60020,123456780", "1.1.1.2,60020,123456790", "1.1.1.3,60020,123456630"
LAYOUTS = [QueueLayout.CLASSIC, QueueLayout.CLASSIC_PEERS]

# Server → queue → WAL → whether it contains a position.
Picture = Mapping[str, Mapping[str, Mapping[str, bool]]]

FIRST: Picture = {
    ONE: {"2": {"1.1.1.1,60020.1234": True, "1.1.1.1,60020.1265": False}},
    TWO: {"2": {"1.1.1.2,60020.1214": True, "1.1.1.2,60020.1248": False, "1.1.1.2,60020.1312": False}},
    THREE: {"2": {"1.1.1.3,60020.1280": True}},
}
FIRST_COPIED: Picture = {**FIRST, THREE: {**FIRST[THREE], f"2-{TWO}": FIRST[TWO]["2"]}}
FIRST_AFTER: Picture = {server: queues for server, queues in FIRST_COPIED.items() if server != TWO}

SECOND: Picture = {
    ONE: {"2": {"1.1.1.1,60020.1378": True}},
    THREE: {"2": {"1.1.1.3,60020.1325": True, "1.1.1.3,60020.1401": False}, f"2-{TWO}": {"1.1.1.2,60020.1312": True}},
}
SECOND_COPIED: Picture = {
    ONE: {**SECOND[ONE], f"2-{THREE}": SECOND[THREE]["2"], f"2-{TWO}-{THREE}": SECOND[THREE][f"2-{TWO}"]},
    THREE: SECOND[THREE],
}
SECOND_AFTER: Picture = {ONE: SECOND_COPIED[ONE]}


class Stopped(Exception):
    """The claimer died right before it could clean up the old znodes."""


def draw(zk: KazooClient, picture: Picture, layout: QueueLayout, live: tuple[str, ...]) -> tuple[HBaseZNodes, SourceCluster]:
    hbase = HBaseZNodes(zk, ZNodes(f"/hbase-{uuid.uuid4().hex[:8]}", layout))
    for path in (hbase.nodes.rs, hbase.nodes.queues):
        zk.ensure_path(path)
    zk.ensure_path(hbase.nodes.peers)
    hbase.add_peer("2")
    for server in live:
        hbase.start_server(server)
    for server, queues in picture.items():
        for queue, wals in queues.items():
            for name, has_position in wals.items():
                value = prefixed(encode_position(int(name[-4:]))) if has_position else b""
                zk.create(hbase.nodes.wal(server, queue, name), value, makepath=True)
    source = SourceCluster(
        quorum="", wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root, queue_layout=layout
    )
    return hbase, source


def seen(hbase: HBaseZNodes) -> Picture:
    """Return the znodes under replication/rs, without locks."""
    picture: dict[str, dict[str, dict[str, bool]]] = {}
    for server in hbase.children(hbase.nodes.queues):
        of_server = picture.setdefault(server, {})
        for queue in hbase.children(hbase.nodes.server_queues(server)):
            if hbase.nodes.is_queue(queue):
                path = hbase.nodes.queue(server, queue)
                of_server[queue] = {name: hbase.zk.get(f"{path}/{name}")[0] != b"" for name in hbase.children(path)}
    return picture


def locked(hbase: HBaseZNodes, server: str) -> bool:
    return hbase.zk.exists(hbase.nodes.lock(server)) is not None


@pytest.fixture
def before_the_clean_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A switch that makes claims stop right before the clean-up."""
    delete = claim_classic._delete

    def stopped(*_: object) -> bool:
        raise Stopped

    return lambda stop: monkeypatch.setattr(claim_classic, "_delete", stopped if stop else delete)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("before", "copied", "after", "live", "dead", "winner"),
    [(FIRST, FIRST_COPIED, FIRST_AFTER, (ONE, THREE), TWO, THREE), (SECOND, SECOND_COPIED, SECOND_AFTER, (ONE,), THREE, ONE)],
    ids=["1.1.1.2 loses its session", "1.1.1.3 too, before it has replicated the last WAL of 1.1.1.2"],
)
def test_a_failover_goes_as_drawn(
    zk: KazooClient, layout: QueueLayout, before: Picture, copied: Picture, after: Picture, live: tuple[str, ...], dead: str,
    winner: str, before_the_clean_up: Callable[[bool], None],
) -> None:  # fmt: skip
    hbase, source = draw(zk, before, layout, live)
    assert seen(hbase) == before
    positions = sorted(value for path, value in hbase.everything().items() if path.startswith(hbase.nodes.queues) and value)

    before_the_clean_up(True)
    with pytest.raises(Stopped):
        claim(session_of(zk, source), dead, "run", winner, to=winner)
    assert locked(hbase, dead)
    assert seen(hbase) == copied

    before_the_clean_up(False)
    claim(session_of(zk, source), dead, "run", winner, to=winner)
    assert seen(hbase) == after
    assert not zk.exists(hbase.nodes.queue_server(dead))
    found = hbase.everything()
    assert sorted(value for path, value in found.items() if path.startswith(hbase.nodes.queues) and value) == positions

"""Which peers a batch's job takes along, and their locks, against a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.hbase.errors import PeerError
from walferry.replication.locks.peer_lock import NO_TURN, PeerLocked, holding_peer, turn_of
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch
from walferry.runs.values import Planned

MANAGED = {"walferry.managed": "true"}
FILES = {**MANAGED, "walferry.sink": "hfiles"}
RUN = "replicate_peer/run"


@pytest.fixture
def peers(hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`peers(p={…}, q={…})` writes the peers' configurations. Their clusters are up."""
    monkeypatch.setattr(batch, "why_down", lambda source, peer: None)

    def write(**configurations: dict[str, str]) -> None:
        for name, config in configurations.items():
            if name == "p":
                hbase.set_config(name, config)
            else:
                hbase.add_peer(name, config=config)

    return write


def test_peers_that_name_another_one_join_it(at: SourceCluster, peers: Callable[..., None]) -> None:
    peers(p=FILES, q=FILES | {"walferry.hfiles.with": "p"}, r=FILES)
    assert (batch.joining(at, "p", None), batch.lead_of(at, "q", None)) == (["q"], "p")
    assert (batch.joining(at, "r", None), batch.lead_of(at, "r", None), batch.lead_of(at, "gone", None)) == ([], None, None)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        (MANAGED, FILES | {"walferry.hfiles.with": "p"}),
        (FILES, MANAGED | {"walferry.hfiles.with": "p"}),
        (FILES, FILES | {"walferry.hfiles.with": "p", "walferry.paused": "true"}),
        (FILES | {"walferry.paused": "true"}, FILES | {"walferry.hfiles.with": "p"}),
        (FILES | {"walferry.hfiles.with": "q"}, FILES | {"walferry.hfiles.with": "p"}),
        ({"walferry.sink": "hfiles"}, FILES | {"walferry.hfiles.with": "p"}),
        (FILES, FILES | {"walferry.hfiles.with": "p", "walferry.hfiles.from": "many"}),
    ],
    ids=["lead makes no files", "makes no files", "paused", "lead is paused", "circle", "lead is HBase's", "wrong setting"],
)
def test_a_peer_that_cannot_join_waits_for_nobody(at: SourceCluster, peers: Callable[..., None], p: dict, q: dict) -> None:
    peers(p=p, q=q)
    assert (batch.joining(at, "p", None), batch.lead_of(at, "q", None)) == ([], None)


def test_the_run_may_ask_for_files(at: SourceCluster, peers: Callable[..., None]) -> None:
    peers(p=MANAGED, q=MANAGED | {"walferry.hfiles.with": "p"})
    assert batch.joining(at, "p", SinkKind.HFILES) == ["q"]
    assert batch.joining(at, "p", SinkKind.DIRECT) == []


def test_the_locks_of_those_taken_along_are_held_and_their_own_task_goes_on_after_that(
    zk: KazooClient, at: SourceCluster, peers: Callable[..., None]
) -> None:
    peers(p=FILES, q=FILES, r=FILES)
    planned = Planned(f"{RUN}.1", "q", groups=1, turn=turn_of(session_of(zk, at), "q", RUN).number)
    with holding_peer(at, "r", "another", "another run", NO_TURN), batch.holding_with(at, "p", RUN, ["q", "r"]) as held:
        assert held == ["q"]
        with pytest.raises(PeerLocked, match=r"run replicate_peer/run on .*, with peer p"), batch.holding_peer(at, planned, RUN):
            pass
        assert batch.after_lead(at, planned, RUN, "p").turn == planned.turn
    with pytest.raises(PeerLocked), batch.holding_peer(at, planned, RUN):  # as if another run had shipped it
        pass
    with batch.holding_peer(at, batch.after_lead(at, planned, RUN, "p"), RUN):
        pass
    with holding_peer(at, "q", "another", "another run", turn_of(session_of(zk, at), "q", "another").number):
        pass
    assert batch.after_lead(at, planned, RUN, "p").turn == planned.turn


def test_a_peer_s_own_job_keeps_its_lock(at: SourceCluster, peers: Callable[..., None]) -> None:
    peers(p=FILES, q=FILES)
    with batch.holding_peer(at, Planned("r.1", "q", turn=NO_TURN), RUN), batch.holding_with(at, "p", RUN, ["q"]) as held:
        assert held == []


@pytest.mark.parametrize("why", ["down", "rows", "wrong"])
def test_nobody_waits_for_a_peer_whose_cluster_is_down_or_gets_rows_of_a_killed_run(
    zk: KazooClient, at: SourceCluster, peers: Callable[..., None], monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    peers(p=FILES, q=FILES)

    def problem(source: SourceCluster, peer: str) -> str | None:
        if why == "wrong":
            raise PeerError(peer, "its cluster key is malformed", "Correct it")
        return "no answer" if why == "down" else None

    monkeypatch.setattr(batch, "why_down", problem)
    if why == "rows":
        zk.ensure_path(f"{session_of(zk, at).own.row_shipments('q')}/t")
    with batch.holding_with(at, "p", RUN, ["q"]) as held:
        assert held == []

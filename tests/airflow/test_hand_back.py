"""The DAG hand_back_peer, run by Airflow, over a real ZooKeeper and a Master of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from embedded.zookeeper import ZooKeeperServer
from tests.zk.fixtures import hbase, new_client, zk
from tests.zk.handing_back_site import NEW, Site, lease, site
from walferry.admin.changing import set_tables
from walferry.airflow.operators.approval import NO, YES
from walferry.airflow.operators.run_batch import RunBatchOperator
from walferry.replication.peers.reading import DISABLED, ENABLED

from .conftest import Run
from .people import person

__all__ = ["hbase", "new_client", "site", "zk"]  # fixtures

DAG = "hand_back_peer"


@pytest.fixture
def hand_back(
    site: Site, run_dag: Callable[..., Run], zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Run]:
    """Run the DAG. Without a scheduler no run of replicate_peer would begin, so the peer is shipped as such a run does."""
    extra = {"wal_root": site.at.wal_root, "znode_parent": site.at.nodes.base, "walferry_root": site.at.root}
    monkeypatch.setenv(
        "AIRFLOW_CONN_HBASE_SOURCE", json.dumps({"conn_type": "generic", "host": zookeeper.quorum, "extra": extra})
    )
    monkeypatch.setattr(RunBatchOperator, "execute", lambda self, context: site.ship(self.conf["peer"]))
    return lambda **params: run_dag(DAG, **{"peer": "p", "new_peer": NEW, **params})


def states(run: Run) -> dict[str, str]:
    return {task: state for (task, _), state in run.tasks.items()}


def test_hbase_ships_by_the_new_peer_once_a_person_has_approved_it(site: Site, hand_back: Callable[..., Run]) -> None:
    with person(YES) as asked:
        ended = hand_back()
    assert ended.state == "success", ended.tasks
    assert (site.master.state_of("p"), site.master.state_of(NEW)) == (None, ENABLED)
    (question,) = asked
    assert question.subject == f"Hand peer p back to HBase, which then ships by peer {NEW}?"
    cluster, added, shipped, removed, enabled = question.body.splitlines()
    assert cluster.startswith("    peer cluster: ")
    assert added == f"    peer {NEW} is added, DISABLED, and from then on collects edits of all user tables"
    assert "a batch ships what is queued for p alone: " in shipped
    assert removed.startswith("    p is removed together with its queues")
    assert enabled.startswith(f"    {NEW} is enabled")


def test_without_a_yes_nothing_is_done(site: Site, hand_back: Callable[..., Run], logged: Callable[[], str]) -> None:
    with person(NO):
        ended = hand_back()
    assert (states(ended)["begin"], states(ended)["finish"]) == ("failed", "upstream_failed")
    assert "peer p is not handed back: ola has rejected it. Nothing was done" in logged()
    assert (site.master.orders, site.master.state_of("p")) == ([], DISABLED)


def test_a_yes_counts_for_the_edits_that_were_shown(
    site: Site,
    hand_back: Callable[..., Run],
    clear: Callable[..., Run],
    monkeypatch: pytest.MonkeyPatch,
    logged: Callable[[], str],
) -> None:
    """The peer gets other tables, after the answer and before it counts."""
    from walferry.admin import handing_back

    begin = handing_back.begin_hand_back
    monkeypatch.setattr(handing_back, "begin_hand_back", lambda *_: 1 / 0)
    with person(YES):
        ended = hand_back()
    assert states(ended)["begin"] == "failed"
    monkeypatch.setattr(handing_back, "begin_hand_back", begin)
    set_tables(site.admin(), "p", {"t": []}, allow_missing=True)
    site.master.orders.clear()
    assert states(clear(DAG, ended, "begin"))["begin"] == "failed"
    assert "the peer gets other edits now" in logged()
    assert site.master.orders == []


@pytest.mark.parametrize("shipped_by", ["the other run", "a later batch"])
def test_the_end_waits_for_other_runs_that_ship_the_peer(
    site: Site, hand_back: Callable[..., Run], later: Callable[..., None], logged: Callable[[], str], shipped_by: str
) -> None:
    """A batch of ours that is left to another run succeeds, and ships nothing."""
    zk = site.new_client()
    other, ship = lease(site, zk), site.ship

    def left_to_another(peer_id: str) -> None:
        other.acquire("run 7")
        later(1, other.release)
        later(3, ship, peer_id)

    site.ship = (lambda peer_id: later(2, ship, peer_id)) if shipped_by == "a later batch" else left_to_another  # type: ignore
    with person(YES):
        ended = hand_back()
    assert ended.state == "success", ended.tasks
    assert ended.tries["finish", None] > 1
    told = logged()
    assert "queued for p alone" in told
    assert ("peer p is in the hands of run 7" in told) == (shipped_by == "the other run")


def test_another_trouble_at_the_end_is_not_tried_for_an_hour(
    hand_back: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    from walferry.admin import handing_back

    monkeypatch.setattr(handing_back, "finish_hand_back", lambda *_: 1 / 0)
    with person(YES):
        ended = hand_back()
    assert (states(ended)["finish"], ended.tries["finish", None]) == ("failed", 3)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"new_peer": None}, "the run needs the id of a new peer"),
        ({"peer": None}, "the run needs a peer"),
        ({"new_peer": "p"}, "peer p exists already"),
        ({"peer": "nobody"}, "nobody"),
        ({"to": "x"}, "there is no parameter 'to'"),
    ],
)
def test_a_run_that_cannot_hand_back_asks_nobody(
    site: Site, hand_back: Callable[..., Run], params: dict[str, Any], why: str, last_words: Callable[[], str]
) -> None:
    with person(YES) as asked:
        ended = hand_back(**params)
    assert (states(ended)["preview"], asked, site.master.orders) == ("failed", [], [])
    assert why in last_words()

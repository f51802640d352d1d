"""A plan is valid as long as the transitions for which it was made go on."""

from __future__ import annotations

from collections.abc import Callable

from tests.zk.region_passes import Work, make
from walferry.master.reconcile import begin_to_close
from walferry.master.states import RegionState
from walferry.master.tables import DISABLE
from walferry.master.znodes import encode_region

__all__ = ["make"]  # a fixture


def test_a_plan_counts_only_for_the_transitions_that_it_was_made_for(make: Callable[[int, int], Work]) -> None:
    """HBase's own master brings a region to its end without reading our plan, and later moves the region again."""
    work = make(1, 1)
    zk, nodes = work.servers.zk, work.servers.nodes
    work.one_pass("created")
    work.servers.finish()
    work.one_pass("acknowledged")
    (server,) = work.servers.serves
    ((encoded, region),) = work.master._cluster.look()[0].regions.items()
    begin_to_close(work.master._cluster.look()[0], {encoded: DISABLE}, work.master._role.writes, work.servers)
    assert work.master._cluster.look()[0].regions[encoded].plan == DISABLE

    path = nodes.region_in_transition(encoded)
    zk.delete(path)
    view, _ = work.master._cluster.look()
    assert (view.regions[encoded].plan, view.stored[encoded].plan) == (None, DISABLE)
    zk.create(path, encode_region(region.name, RegionState.CLOSED, server))
    work.servers.serves[server] = frozenset()
    assert work.master._cluster.look()[0].regions[encoded].plan is None

    work.one_pass("opened again")  # as its table is enabled
    assert [znode.encoded_name for znode in work.servers.to_open] == [encoded]
    plan = work.master._cluster.look()[0].regions[encoded].plan
    assert plan is not None
    assert plan.reopen

"""The flows of the master, each from its beginning to its end, with servers that open and close regions as HBase's do.

The flow of a server's failure is in test_failure.py.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from tests.zk.flows import REGIONS, Flows, flows
from tests.zk.region_world import states
from walferry.hbase.names import ServerName
from walferry.master import tables
from walferry.master.catalog import CatalogRead
from walferry.master.decide import Step
from walferry.master.role_loop import decide_for
from walferry.master.states import RegionState
from walferry.master.tables import TableState, read_state
from walferry.master.znodes import encode_region

__all__ = ["flows"]  # a fixture

DEAD = ServerName("rs-9.example.org", 16020, 1_600_000_000_000)


def test_a_start_clears_what_an_earlier_life_has_left_and_spreads_the_regions(flows: Flows) -> None:
    world = flows.world
    for encoded, state in zip(
        sorted(world.meta), (RegionState.OPENING, RegionState.CLOSED, RegionState.OPENED, RegionState.CLOSING), strict=False
    ):
        world.zk.create(world.nodes.region_in_transition(encoded), encode_region(world.names[encoded], state, DEAD))
    assert flows.master.start(minimum=2)
    assert states(world) == {}
    flows.until_quiet()
    assert Counter(flows.served().values()) == dict.fromkeys((server.name for server in world.live), REGIONS // 2)


@pytest.mark.slow
def test_with_a_region_online_or_in_transition_at_a_live_server_it_is_a_failover(flows: Flows) -> None:
    world = flows.world
    encoded = min(world.meta)
    value = encode_region(world.names[encoded], RegionState.OFFLINE, world.live[0].name)
    world.zk.create(world.nodes.region_in_transition(encoded), value)
    assert not flows.master.start()
    assert list(states(world)) == [encoded]
    flows.until_quiet()
    assert len(flows.served()) == REGIONS
    assert not flows.master.start()


def test_a_table_is_disabled_and_enabled_again(flows: Flows) -> None:
    flows.until_quiet()
    world = flows.world
    tables.disable(world.zk, world.nodes, flows.lock, "t")
    flows.until_quiet()
    assert flows.served() == {}
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLED
    tables.enable(world.zk, world.nodes, flows.lock, "t")
    flows.until_quiet()
    assert len(flows.served()) == REGIONS
    assert read_state(world.zk, world.nodes, "t").state is TableState.ENABLED


@pytest.mark.parametrize("state", [RegionState.OFFLINE, RegionState.OPENED, RegionState.FAILED_OPEN])
def test_an_open_that_another_master_has_left_of_a_disabled_table_leaves_no_region_open(flows: Flows, state: RegionState) -> None:
    world = flows.world
    tables.disable(world.zk, world.nodes, flows.lock, "t")
    flows.until_quiet()
    encoded, server = min(world.meta), world.live[0]
    world.zk.create(world.nodes.region_in_transition(encoded), encode_region(world.names[encoded], state, server.name))
    if state is RegionState.OPENED:
        server.online.add(encoded)
    for _ in range(5):  # a region that is open counts as quiet
        flows.until_quiet()
    assert flows.served() == {}
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLED


def test_a_table_is_not_disabled_while_the_znode_of_one_of_its_regions_cannot_be_read(flows: Flows) -> None:
    flows.until_quiet()
    world = flows.world
    broken = world.nodes.region_in_transition(min(world.meta))
    world.zk.create(broken, b"junk")
    tables.disable(world.zk, world.nodes, flows.lock, "t")
    for _ in range(5):
        flows.until_quiet()
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLING
    world.zk.delete(broken)
    flows.until_quiet()
    assert flows.served() == {}
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLED


def test_a_server_that_dies_while_its_table_is_disabled_leaves_no_region_open(flows: Flows) -> None:
    flows.until_quiet()
    tables.disable(flows.world.zk, flows.world.nodes, flows.lock, "t")
    flows.master.one_pass()
    flows.kill()
    flows.until_quiet()
    assert flows.served() == {}
    assert read_state(flows.world.zk, flows.world.nodes, "t").state is TableState.DISABLED


def test_a_new_server_gets_its_share_of_the_regions(flows: Flows) -> None:
    flows.until_quiet()
    flows.start_server()
    assert flows.master.balance()
    assert flows.master.balance() == []  # regions are in transition
    flows.until_quiet()
    assert sorted(Counter(flows.served().values()).values()) == [2, 3, 3]


def test_the_loop_goes_on_until_it_is_told_to_stop(flows: Flows) -> None:
    stop = threading.Event()
    loop = threading.Thread(target=flows.master.run, args=(stop,))
    loop.start()
    try:
        give_up = time.monotonic() + 120
        while states(flows.world) or not all(flows.world.serving(row) for row in flows.world.all_rows):
            assert time.monotonic() < give_up, flows.reported[-20:]
            flows.work()
            time.sleep(0.05)
    finally:
        stop.set()
        loop.join(60)
    assert not loop.is_alive()
    assert len(flows.served()) == REGIONS


def test_only_the_region_that_was_asked_for_is_opened(flows: Flows) -> None:
    encoded = min(flows.world.meta)
    for _ in range(10):
        flows.master.one_pass(frozenset({encoded}))
        flows.work()
    assert list(flows.served()) == [encoded]


def test_while_hbase_meta_cannot_be_read_no_other_region_is_touched(flows: Flows) -> None:
    view, read = flows.cluster.look()
    incomplete = CatalogRead(read.regions, complete=False)
    assert {decision.step for _, decision in decide_for(view, read)} == {Step.CREATE}
    assert {decision.step for _, decision in decide_for(view, incomplete)} == {Step.WAIT}

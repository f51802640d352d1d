"""Next to an HMaster, only an open that its server does not finish is given up, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from tests.zk import regionserver
from tests.zk.region_commands import Commands, regions
from tests.zk.role_znodes import become_active
from walferry.master.beside_active_master import beside_master, decide_beside, give_up_opens
from walferry.master.errors import IllegitimateTransition, NoLiveMaster, RoleHeld
from walferry.master.role import active_hmaster, take_role
from walferry.master.states import RegionState
from walferry.master.transitions import Transition
from walferry.master.writes import Change, MasterWrites
from walferry.master.znodes import encode_region, read_region
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session

__all__ = ["regions"]  # a fixture


class Stuck:
    """A region that has been OPENING for an hour by the look's clock, next to an HMaster."""

    def __init__(self, regions: Commands, hmaster: KazooClient) -> None:
        self.world, self.cluster = regions.world, regions.cluster
        become_active(hmaster, self.world.nodes)
        self.server = self.world.live[0]
        self.encoded = min(self.world.meta)
        name = self.world.names[self.encoded]
        self.world.zk.create(
            self.world.nodes.region_in_transition(self.encoded), encode_region(name, RegionState.OPENING, self.server.name)
        )

    def give_up(self, zk: KazooClient, between: Callable[[], object] = lambda: None) -> list[object]:
        world = self.world
        source = SourceCluster(quorum="", wal_root="", znode_parent=world.nodes.base, root=world.own.root)
        seen, _ = self.cluster(Session(source, zk)).look()
        hmaster = active_hmaster(zk, world.nodes)
        assert hmaster is not None
        decided = [(region, decide_beside(seen, region, hmaster, 0.0)) for region in seen.regions.values()]
        with beside_master(zk, world.nodes, world.own, "test") as writes:
            between()
            return [outcome.error for outcome in give_up_opens(decided, writes)]

    @property
    def state(self) -> RegionState | None:
        found = read_region(self.world.zk, self.world.nodes, self.encoded)
        return found and found.state


def test_an_open_that_does_not_go_on_is_given_up_beside_an_hmaster_in_its_server_s_name(
    regions: Commands, zk: KazooClient, new_client: Callable[[], KazooClient]
) -> None:
    stuck = Stuck(regions, new_client())
    status, out, _ = regions.run("unstick", "--limit", "0")
    assert (status, "write FAILED_OPEN in the server's place" in out, stuck.state) == (0, True, RegionState.OPENING)
    assert stuck.give_up(zk) == [None]
    found = read_region(zk, stuck.world.nodes, stuck.encoded)
    assert found is not None
    assert (found.state, found.server) == (RegionState.FAILED_OPEN, stuck.server.name)
    # The server wakes up: its next writes are refused, so it does not serve the region.
    assert regionserver.finish_open(zk, stuck.world.nodes, stuck.server.name, stuck.encoded, 0) is None


def test_unstick_does_nothing_beside_an_hmaster_that_waits_for_nothing(
    regions: Commands, new_client: Callable[[], KazooClient]
) -> None:
    become_active(new_client(), regions.world.nodes)
    status, out, err = regions.run("unstick", "--yes")
    assert (status, "nothing is to be done beside the HMaster" in out, err) == (0, True, "")


def test_an_open_that_goes_on_meanwhile_is_left_alone(
    regions: Commands, zk: KazooClient, new_client: Callable[[], KazooClient]
) -> None:
    stuck = Stuck(regions, new_client())

    def goes_on() -> None:
        assert regionserver.keep_opening(zk, stuck.world.nodes, stuck.server.name, stuck.encoded, 0) == 1

    (error,) = stuck.give_up(zk, goes_on)
    assert "GIVE_UP_OPEN was not written" in str(error)
    assert stuck.state is RegionState.OPENING


def test_nothing_is_given_up_once_the_hmaster_is_gone_or_while_another_run_acts(
    regions: Commands, zk: KazooClient, new_client: Callable[[], KazooClient]
) -> None:
    stuck = Stuck(regions, new_client())
    other = take_role(new_client(), stuck.world.nodes, stuck.world.own, "another run")
    with pytest.raises(RoleHeld):
        stuck.give_up(zk)
    other.release()
    with pytest.raises(NoLiveMaster):
        stuck.give_up(zk, lambda: zk.delete(stuck.world.nodes.master))
    assert stuck.state is RegionState.OPENING


def test_only_that_one_transition_is_allowed_beside_an_hmaster(
    regions: Commands, zk: KazooClient, new_client: Callable[[], KazooClient]
) -> None:
    stuck = Stuck(regions, new_client())
    znode = read_region(zk, stuck.world.nodes, stuck.encoded)
    assert znode is not None
    with beside_master(zk, stuck.world.nodes, stuck.world.own, "test") as writes, pytest.raises(IllegitimateTransition):
        writes.write(Change(Transition.FORCE_OFFLINE, znode.name, znode, stuck.server.name))
    zk.delete(stuck.world.nodes.master)
    lock = take_role(zk, stuck.world.nodes, stuck.world.own, "test")
    with pytest.raises(IllegitimateTransition):
        MasterWrites(zk, stuck.world.nodes, stuck.world.own, lock).write(Change(Transition.GIVE_UP_OPEN, znode.name, znode))

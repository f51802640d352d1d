"""`walferry regions` on a ZooKeeper with regions whose servers open and close them as HBase's do."""

from __future__ import annotations

import json
from collections.abc import Callable

from kazoo.client import KazooClient

from tests.zk.busy_cluster import start_server
from tests.zk.region_commands import REGIONS, Commands, open_regions, regions
from tests.zk.region_world import states
from tests.zk.role_znodes import become_active
from walferry.hbase.names import ServerName
from walferry.master.plans import read_plans
from walferry.master.states import RegionState
from walferry.master.tables import TableState, read_state
from walferry.master.znodes import encode_region

__all__ = ["open_regions", "regions"]  # fixtures


def test_a_list_and_a_dry_run_change_nothing_and_the_real_run_opens_all_regions(regions: Commands) -> None:
    status, out, _ = regions.run("list")
    assert (status, out.count("no server serves it")) == (3, REGIONS)
    status, out, _ = regions.run("unstick")
    assert (status, out.count("create the znode as OFFLINE")) == (0, REGIONS)
    assert out.endswith("Nothing was done. With --yes this command acts as the cluster's master and does it\n")
    assert not regions.world.zk.exists(regions.world.own.master_role)
    assert not any(regions.served().values())

    status, _, err = regions.run("unstick", "--yes")
    assert (status, err) == (0, "Done\n")
    assert {len(servers) for servers in regions.served().values()} == {1}
    assert (states(regions.world), read_plans(regions.world.zk, regions.world.own)) == ({}, ({}, {}))
    assert not regions.world.zk.exists(regions.world.nodes.master), "an HMaster can take over"
    status, out, _ = regions.run("list", "--json")
    found = json.loads(out)
    assert (status, found["open"], found["known"], found["rows"]) == (0, REGIONS, REGIONS, [])


def test_only_the_region_that_was_named_is_assigned_where_the_operator_says(regions: Commands) -> None:
    encoded, to = min(regions.world.meta), regions.world.live[1].name
    assert regions.run("assign", encoded, "--server", str(to), "--yes")[0] == 0
    assert {name: servers for name, servers in regions.served().items() if servers} == {encoded: [to]}
    status, _, err = regions.run("assign", encoded, "--yes")
    assert (status, "acts as the master" in err) == (1, False)
    assert f"region {encoded} is served by {to}" in err


def test_a_region_moves(open_regions: Commands) -> None:
    encoded = min(open_regions.world.meta)
    (source,) = open_regions.served()[encoded]
    (to,) = {each.name for each in open_regions.world.live} - {source}
    status, out, _ = open_regions.run("move", encoded, str(to), "--yes", "--json")
    reported = json.loads(out)
    assert (status, reported["done"], reported["lines"][0]) == (
        0,
        True,
        f"region {encoded} is closed at {source} and opened at {to}",
    )
    assert open_regions.served()[encoded] == [to]


def test_a_table_is_disabled_and_enabled(open_regions: Commands) -> None:
    world = open_regions.world
    assert open_regions.run("disable", "t", "--yes")[0] == 0
    assert {len(servers) for servers in open_regions.served().values()} == {0}
    assert read_state(world.zk, world.nodes, "t").state is TableState.DISABLED
    status, _, err = open_regions.run("disable", "t", "--yes")
    assert (status, "table t is DISABLED" in err) == (1, True)
    assert open_regions.run("enable", "t", "--yes")[0] == 0
    assert {len(servers) for servers in open_regions.served().values()} == {1}


def test_the_cluster_is_balanced(open_regions: Commands) -> None:
    world = open_regions.world
    start_server(world, open_regions.root)
    assert open_regions.run("balance", "--yes")[0] == 0
    assert min(len(each.online) for each in world.live) == 1
    assert {len(servers) for servers in open_regions.served().values()} == {1}


def test_a_double_assignment_is_told_and_resolved_only_on_request(open_regions: Commands) -> None:
    encoded = min(open_regions.world.meta)
    (rightful,) = open_regions.served()[encoded]
    (other_copy,) = (each for each in open_regions.world.live if each.name != rightful)
    other_copy.online.add(encoded)
    status, out, _ = open_regions.run("list")
    assert (status, f"{rightful} and {other_copy.name}" in out or f"{other_copy.name} and {rightful}" in out) == (3, True)
    status, _, err = open_regions.run("unstick", "--yes")
    assert (status, f"walferry: this needs an operator: region {encoded}" in err) == (3, True)
    assert "acts as the master" not in err, "there is nothing to take the role for"
    assert len(open_regions.served()[encoded]) == 2

    status, _, err = open_regions.run("close-copy", encoded, str(rightful), "--yes")
    assert (status, "--named-by-meta" in err) == (1, True)
    assert open_regions.run("close-copy", encoded, str(other_copy.name))[0] == 0
    assert len(open_regions.served()[encoded]) == 2
    assert open_regions.run("close-copy", encoded, str(other_copy.name), "--yes")[0] == 0
    assert open_regions.served()[encoded] == [rightful]


def test_broken_znodes_stop_only_their_regions_and_are_shown_harmlessly(regions: Commands) -> None:
    world = regions.world
    broken, *others = sorted(world.meta)
    override = "\u202e"  # ZooKeeper refuses control characters in names, but not what turns text round
    hostile = encode_region(world.names[broken], RegionState.OPENING, ServerName("x", 1, 1)).replace(b"\x01x", b"\x01\x1b")
    world.zk.create(world.nodes.region_in_transition(broken), hostile)
    world.zk.create(world.nodes.region_in_transition(f"{override}{{{{conn.slack.password}}}}"), b"\x1b[31m" * 100_000)
    assert regions.run("unstick", "--yes")[0] == 3
    assert {encoded for encoded, servers in regions.served().items() if servers} == set(others)
    for command in (["list"], ["list", "--json"], ["explain", broken], ["unstick"]):
        status, out, err = regions.run(*command)
        assert not {"\x1b", override} & set(out + err)
        assert "\\u001b" not in out + err
        assert len(out + err) < 20_000
        assert status == (0 if command == ["unstick"] else 3)


def test_commands_that_write_refuse_in_words_while_an_hmaster_is_active(
    regions: Commands, new_client: Callable[[], KazooClient]
) -> None:
    become_active(new_client(), regions.world.nodes)
    encoded, server = min(regions.world.meta), str(regions.world.live[0].name)
    of_region = [["assign", encoded], ["move", encoded, server], ["close-copy", encoded, server]]
    for command in [*of_region, ["disable", "t"], ["balance"]]:
        for yes in ([], ["--yes"]):
            status, _, err = regions.run(*command, *yes)
            assert status == 1
            assert "HMaster m1.example.org,16000,1700000000000 is active" in err
    status, out, _ = regions.run("list")
    assert (status, out.count("HMaster m1.example.org")) == (3, REGIONS + 1)
    assert states(regions.world) == {}

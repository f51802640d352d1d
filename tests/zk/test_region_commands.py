"""`walferry regions` on a ZooKeeper with regions whose servers open and close them as HBase's do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.zk.busy_cluster import busy_cluster, faultless_world, start_server
from tests.zk.region_world import RegionWorld, states
from tests.zk.test_region_role import become_active
from walferry.cli.main import main
from walferry.hbase.values import PBUF
from walferry.names import ServerName
from walferry.protos import hbase_pb2 as pb
from walferry.regions import emergency, regionserver, work
from walferry.regions.beside import beside_master, decide_beside, give_up_opens
from walferry.regions.errors import IllegitimateTransition, NoLiveMaster, NotHBase1, RoleHeld
from walferry.regions.plans import read_plans
from walferry.regions.reconcile import Known
from walferry.regions.role import active_hmaster, take_role
from walferry.regions.states import State
from walferry.regions.table_states import TableState, read_state
from walferry.regions.transitions import Transition
from walferry.regions.writes import Change, MasterWrites
from walferry.regions.znodes import encode_region, read_region
from walferry.source.cluster import SourceCluster
from walferry.source.connection import from_text
from walferry.source.session import Session, open_session

REGIONS = 4


class Commands:
    """The commands, as an operator of the world's cluster runs them."""

    def __init__(self, world: RegionWorld, root: Path, quorum: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self.capsys = world, capsys
        extra = {"wal_root": f"file://{root}", "znode_parent": world.nodes.base, "walferry_root": world.own.root}
        self.source = json.dumps({"conn_type": "generic", "host": quorum, "extra": extra})
        self.root = root
        self.cluster = busy_cluster(world, root)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command. Its exit status, output and errors."""
        where = ["--host", "localhost", "--wait", "60"] if arguments[0] not in ("list", "explain") else []
        status = main(["--source", self.source, "regions", *arguments, *where])
        told = self.capsys.readouterr()
        return status, told.out, told.err

    def served(self) -> dict[str, list[ServerName]]:
        return {encoded: [each.name for each in self.world.live if encoded in each.online] for encoded in self.world.meta}


@pytest.fixture
def regions(
    zk: KazooClient, new_client: Callable[[], KazooClient], tmp_path: Path, zookeeper, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Commands:  # fmt: skip
    """Two servers, and regions that no server serves yet."""
    world = faultless_world(zk, new_client, REGIONS)
    found = Commands(world, tmp_path, zookeeper.quorum, capsys)
    monkeypatch.setattr(work, "cluster_of", found.cluster)
    return found


@pytest.fixture
def open_regions(regions: Commands) -> Commands:
    """The same, and all regions are open."""
    assert regions.run("unstick", "--yes")[0] == 0
    assert {len(servers) for servers in regions.served().values()} == {1}
    return regions


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
    assert (states(regions.world), read_plans(regions.world.zk, regions.world.own)) == ({}, ({}, []))
    assert not regions.world.zk.exists(regions.world.nodes.master), "an HMaster can take over"
    status, out, _ = regions.run("list", "--json")
    found = json.loads(out)
    assert (status, found["open"], found["known"], found["rows"]) == (0, REGIONS, REGIONS, [])


def test_what_is_known_only_later_is_unstuck_too(regions: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    """As all regions but that of hbase:meta are, while hbase:meta is not open."""
    world = regions.world
    every = dict(world.meta)
    first = min(every)
    catalog = world.catalog

    def grows() -> dict[str, Known]:
        known = catalog()
        opened = any(first in server.online for server in world.live)
        return {name: region for name, region in known.items() if opened or name == first}

    monkeypatch.setattr(world, "catalog", grows)
    assert regions.run("unstick", "--yes")[0] == 0
    assert {len(servers) for servers in regions.served().values()} == {1}


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
    told = json.loads(out)
    assert (status, told["done"], told["lines"][0]) == (0, True, f"region {encoded} is closed at {source} and opened at {to}")
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
    (stray,) = (each for each in open_regions.world.live if each.name != rightful)
    stray.online.add(encoded)
    status, out, _ = open_regions.run("list")
    assert (status, f"{rightful} and {stray.name}" in out or f"{stray.name} and {rightful}" in out) == (3, True)
    status, _, err = open_regions.run("unstick", "--yes")
    assert (status, f"walferry: this needs an operator: region {encoded}" in err) == (3, True)
    assert "acts as the master" not in err, "there is nothing to take the role for"
    assert len(open_regions.served()[encoded]) == 2

    status, _, err = open_regions.run("close-stray", encoded, str(rightful), "--yes")
    assert (status, "--named-by-meta" in err) == (1, True)
    assert open_regions.run("close-stray", encoded, str(stray.name))[0] == 0
    assert len(open_regions.served()[encoded]) == 2
    assert open_regions.run("close-stray", encoded, str(stray.name), "--yes")[0] == 0
    assert open_regions.served()[encoded] == [rightful]


def test_broken_znodes_stop_only_their_regions_and_are_shown_harmlessly(regions: Commands) -> None:
    world = regions.world
    broken, *others = sorted(world.meta)
    override = "\u202e"  # ZooKeeper refuses control characters in names, but not what turns text round
    hostile = encode_region(world.names[broken], State.OPENING, ServerName("x", 1, 1)).replace(b"\x01x", b"\x01\x1b")
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
    of_region = [["assign", encoded], ["move", encoded, server], ["close-stray", encoded, server]]
    for command in [*of_region, ["disable", "t"], ["balance"]]:
        for yes in ([], ["--yes"]):
            status, _, err = regions.run(*command, *yes)
            assert status == 1
            assert "HMaster m1.example.org,16000,1700000000000 is active" in err
    status, out, _ = regions.run("list")
    assert (status, out.count("HMaster m1.example.org")) == (3, REGIONS + 1)
    assert states(regions.world) == {}


class Stuck:
    """A region that has been OPENING for an hour, by the look's clock, beside an HMaster."""

    def __init__(self, regions: Commands, hmaster: KazooClient) -> None:
        self.world, self.cluster = regions.world, regions.cluster
        become_active(hmaster, self.world.nodes)
        self.server = self.world.live[0]
        self.encoded = min(self.world.meta)
        name = self.world.names[self.encoded]
        self.world.zk.create(
            self.world.nodes.region_in_transition(self.encoded), encode_region(name, State.OPENING, self.server.name)
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
    def state(self) -> State | None:
        found = read_region(self.world.zk, self.world.nodes, self.encoded)
        return found and found.state


def test_an_open_that_does_not_go_on_is_given_up_beside_an_hmaster_in_its_server_s_name(
    regions: Commands, zk: KazooClient, new_client: Callable[[], KazooClient]
) -> None:
    stuck = Stuck(regions, new_client())
    status, out, _ = regions.run("unstick", "--limit", "0")
    assert (status, "write FAILED_OPEN in the server's place" in out, stuck.state) == (0, True, State.OPENING)
    assert stuck.give_up(zk) == [None]
    found = read_region(zk, stuck.world.nodes, stuck.encoded)
    assert found is not None
    assert (found.state, found.server) == (State.FAILED_OPEN, stuck.server.name)
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
    assert stuck.state is State.OPENING


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
    assert stuck.state is State.OPENING


def test_only_that_one_transition_is_allowed_beside_an_hmaster(
    regions: Commands, zk: KazooClient, new_client: Callable[[], KazooClient]
) -> None:
    stuck = Stuck(regions, new_client())
    znode = read_region(zk, stuck.world.nodes, stuck.encoded)
    assert znode is not None
    with beside_master(zk, stuck.world.nodes, stuck.world.own, "test") as writes, pytest.raises(IllegitimateTransition):
        writes.write(Change(Transition.FORCE_OFFLINE, znode.name, znode, stuck.server.name))
    zk.delete(stuck.world.nodes.master)
    hold = take_role(zk, stuck.world.nodes, stuck.world.own, "test")
    with pytest.raises(IllegitimateTransition):
        MasterWrites(zk, stuck.world.nodes, stuck.world.own, hold).write(Change(Transition.GIVE_UP_OPEN, znode.name, znode))


def test_a_cluster_of_hbase_2_is_refused(zk: KazooClient, regions: Commands) -> None:
    info = pb.RegionServerInfo()
    info.version_info.version = "2.6.1"
    for field in ("url", "revision", "user", "date", "src_checksum"):
        setattr(info.version_info, field, "")
    zk.set(f"{regions.world.nodes.rs}/{regions.world.live[0].name}", PBUF + info.SerializePartialToString())
    session = Session(SourceCluster(quorum="", wal_root="", znode_parent=regions.world.nodes.base), zk)
    with pytest.raises(NotHBase1, match=r"is HBase 2\.6\.1"):
        work.check_hbase_1(session)


@pytest.mark.slow
def test_an_emergency_start_refuses_servers_of_hbase_2_that_come_after_it_has_begun(
    zk: KazooClient, regions: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(work, "check_hbase_1", lambda session: None)  # as long as no server is live
    monkeypatch.setattr(emergency, "check_hbase_1", lambda session: begun.append("again"))
    with open_session(from_text(regions.source)) as session:
        emergency.start_cluster(session, work.Terms("test", host="localhost", wait_seconds=60), 1, begun.append)
    assert begun[1] == "again", "right after the servers are there, before anything is opened"


def test_the_wals_of_another_cluster_are_not_touched(open_regions: Commands) -> None:
    """With another cluster's root, its servers would look dead: they have folders of WALs, and no session in this ZooKeeper."""
    regions = open_regions
    theirs = regions.root / "WALs" / "rs1.another.org,16020,1700000000000"
    theirs.mkdir()
    (theirs / "rs1.another.org%2C16020%2C1700000000000.1700000000001").touch()
    other = pb.ClusterId(cluster_id="00000000-0000-4000-8000-000000000000")
    (regions.root / "hbase.id").write_bytes(PBUF + other.SerializeToString())
    encoded, (source,) = next(iter(regions.served().items()))
    target = next(server.name for server in regions.world.live if server.name != source)
    status, _, err = regions.run("move", encoded, str(target), "--yes")
    assert theirs.is_dir()
    assert status == 1
    assert "hbase.id: these are the files of cluster 00000000-0000-4000-8000-000000000000" in err
    assert regions.served()[encoded] == [source]
    assert not regions.world.zk.exists(regions.world.nodes.master)

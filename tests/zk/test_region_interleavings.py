"""Masters, servers, deaths, lost sessions and lost calls in any order: a region is served at most once, and in the end once.

Each step is one write to ZooKeeper, one call or one answer. The order comes from a seed, which a failure names.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create

from embedded.zookeeper import ZooKeeperServer
from tests.zk.fixtures import SESSION_TIMEOUT_SECONDS
from tests.zk.hbase_znodes import expire
from tests.zk.region_world import Asked, RegionWorld, be_hmaster, be_master, states
from tests.zk.stepped import Stepped
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connect, disconnect
from walferry.hbase.values import decode_message
from walferry.master.plans import read_plans
from walferry.master.reconcile import act, decide_all, look
from walferry.master.role import take_role
from walferry.master.states import RegionState
from walferry.master.transitions import Transition
from walferry.master.writes import MasterWrites

REGIONS = 3
MASTERS = 2
HMASTERS = 0.3  # of the masters
ONE_RUN = 0.3  # of the other masters: retries of one run, which put each other out
OUTSTAYS = 300  # steps that a master at most stands still before a creation
MAX_SERVERS = 4
STEPS_A_WORLD = 600
QUIET_PASSES = 60
# What a RegionServer does with the znode of a split or merge of its own.
OF_SERVERS = {
    (None, RegionState.REQUEST_SPLIT), (RegionState.REQUEST_SPLIT, RegionState.REQUEST_SPLIT), (RegionState.REQUEST_SPLIT, None),
    (RegionState.SPLITTING, None), (RegionState.SPLITTING, RegionState.SPLIT), (RegionState.SPLIT, RegionState.SPLIT),
    (None, RegionState.REQUEST_MERGE), (RegionState.REQUEST_MERGE, RegionState.REQUEST_MERGE), (RegionState.REQUEST_MERGE, None),
    (RegionState.MERGING, None), (RegionState.MERGING, RegionState.MERGED), (RegionState.MERGED, RegionState.MERGED),
}  # fmt: skip


class Play:
    """A world at work, step by step."""

    def __init__(self, quorum: str, seed: int) -> None:
        self.clients: list[KazooClient] = []
        self.quorum = quorum
        self.world = RegionWorld(self.new_client(), self.new_client, REGIONS, seed)
        self.chance = self.world.chance
        self.masters: list[tuple[KazooClient, Stepped] | None] = [None] * MASTERS
        self.before = states(self.world)
        self.kinds = [0.0] * MASTERS  # below HMASTERS it is an HMaster, below HMASTERS + ONE_RUN a retry of one run
        self.next_kind: float | None = None  # the kind of master that takes over while one stands still
        self.deleted: set[str] = set()  # znodes that have gone while a master stood still
        self.runs = itertools.count(1)
        self.transitions = 0
        self.stalled: tuple[int, ...] = ()  # masters that stand still, whatever happens around them
        self.outstaying: tuple[int, str, int] | None = None  # a master, the znode that it is about to create, and steps left
        for _ in range(2):
            self.world.start_server()

    def new_client(self) -> KazooClient:
        self.clients.append(connect(self.quorum, session_timeout=SESSION_TIMEOUT_SECONDS))
        return self.clients[-1]

    def step(self) -> None:
        """Make one step of the process whose turn it is."""
        if self.outstays():
            pass
        elif self.chance.random() < 0.02:
            self.stalled = self.chance.choice([(), (), (0,), (1,), (0, 1)])
        unrest = 0.0 if self.outstaying is not None else self.world.unrest
        weights = {
            self.master_step: 120.0,
            self.server_step: 60.0,
            self.birth: 2.0 * self.world.haste,
            self.death: 1.5 * self.world.haste,
            self.split: 1.0 * self.world.haste,
            self.kill_master: 0.4 * unrest,
            self.table: 0.5 if self.world.enabled else 5.0,
            self.lose_session: 0.4 * unrest,
            self.delete_master_znode: 0.4 * unrest,
        }
        self.chance.choices(list(weights), list(weights.values()))[0]()
        self.check()

    def outstays(self) -> bool:
        """Let a master stand still before it creates a znode, until another one has moved the region to its end.

        A creation is made at no version, so only the role's checks show that the decision is out of date. The role goes to an
        HMaster, once an operator has deleted our znode, or to a retry of the same run. This happens in restless worlds.
        """
        if self.outstaying is not None:
            i, path, left = self.outstaying
            gone = path in self.deleted or left == 0 or i not in self.running()
            self.outstaying, self.stalled = (None, ()) if gone else ((i, path, left - 1), (i,))
            if gone:
                self.next_kind = None
            return not gone
        if self.world.unrest == 1.0:
            return False
        for i in self.running():
            if self.kinds[i] < HMASTERS:
                continue
            path = creates(self.masters[i][1].before, self.world.nodes.in_transition)  # type: ignore[index]
            if path is not None and self.chance.random() < 0.3:
                self.outstaying, self.stalled, self.deleted = (i, path, OUTSTAYS), (i,), set()
                self.next_kind = self.chance.choice([0.0, HMASTERS]) if self.kinds[i] < HMASTERS + ONE_RUN else 0.0
                if self.next_kind < HMASTERS:
                    self.world.delete_master_znode()
                return True
        return False

    def master_step(self) -> None:
        awake = [i for i in range(MASTERS) if i not in self.stalled]
        if not awake:
            return
        running = [i for i in self.running() if i in awake]
        # Most attempts to take a role that is held are refused at once.
        i = self.chance.choice(running if running and self.chance.random() < 0.9 else awake)
        at_work = self.masters[i]
        if at_work is not None and at_work[1].running:
            at_work[1].step()
        else:
            self.masters[i] = self._new_master(i, at_work[0] if at_work is not None else self.new_client())
        at_work = self.masters[i]
        if at_work is not None and not at_work[1].running and at_work[1].error is not None and not at_work[1].killed:
            raise at_work[1].error

    def _new_master(self, i: int, zk: KazooClient) -> tuple[KazooClient, Stepped]:
        itself: list[Stepped] = []
        name = f"master {i}, run {next(self.runs)}"
        passes = self.chance.randrange(3, 30)
        kind = self.chance.random() if self.next_kind is None else self.next_kind
        self.kinds[i] = kind
        run = "one run" if kind < HMASTERS + ONE_RUN else None

        def be(zk: KazooClient) -> None:
            if kind < HMASTERS:
                be_hmaster(self.world, zk, name, lambda: itself[0].pause(), passes)
            else:
                be_master(self.world, zk, name, lambda: itself[0].pause(), passes, run)

        itself.append(Stepped(zk, be))
        return zk, itself[0]

    def server_step(self) -> None:
        if self.world.live:
            self.world.server_step(self.chance.choice(self.world.live))

    def death(self) -> None:
        if self.world.live:
            self.world.kill_server(self.chance.choice(self.world.live))

    def birth(self) -> None:
        if len(self.world.live) < MAX_SERVERS:
            self.world.start_server()

    def split(self) -> None:
        if self.world.unsplit:
            self.world.split_wals(self.chance.choice(sorted(self.world.unsplit)))

    def running(self) -> list[int]:
        return [i for i, each in enumerate(self.masters) if each is not None and each[1].running]

    def lose_session(self) -> None:
        """Lose a session, mostly where a master stands still."""
        i = self.chance.randrange(MASTERS)
        at_work = self.masters[i]
        if at_work is not None:
            expire(at_work[0])
            self.stalled = (i,)

    def delete_master_znode(self) -> None:
        self.world.delete_master_znode()
        self.stalled = tuple(self.running()[:1])

    def kill_master(self) -> None:
        running = self.running()
        i = self.chance.choice(running) if running and self.chance.random() < 0.9 else self.chance.randrange(MASTERS)
        at_work = self.masters[i]
        if at_work is not None:
            at_work[1].kill()
            disconnect(at_work[0])
            self.masters[i] = None

    def kill_masters(self) -> None:
        for at_work in self.masters:
            if at_work is not None:
                at_work[1].kill()
                disconnect(at_work[0])
        self.masters = [None] * MASTERS

    def table(self) -> None:
        self.world.enabled = not self.world.enabled

    def check(self) -> None:
        """Check that no region is served twice, and each znode has changed by at most one row of the table."""
        self.check_served()
        now = states(self.world)
        for encoded in self.before.keys() | now.keys():
            old, new = self.before.get(encoded), now.get(encoded)
            if old != new:
                self.transitions += 1
                if new is None:
                    self.deleted.add(self.world.nodes.region_in_transition(encoded))
                live = {str(server.name) for server in self.world.live}
                assert legitimate(old, new, live), f"{encoded}: {old} → {new}"
        self.before = now

    def end(self) -> None:
        """End all masters, split all WALs, and let one master alone bring each region to its end."""
        self.kill_masters()
        if not self.world.live:
            self.world.start_server()
        for name in list(self.world.unsplit):
            self.world.split_wals(name)
        self.world.enabled = True
        zk = self.new_client()
        lock = take_role(zk, self.world.nodes, self.world.own, "the last one")
        writes, asked = MasterWrites(zk, self.world.nodes, self.world.own, lock), Asked(self.world, lambda: None)
        for _ in range(QUIET_PASSES):
            view = look(zk, self.world.nodes, self.world.own, asked, self.world.catalog, self.world.with_wals, self.world.clock)
            act(view, decide_all(view, 1.0), writes, asked, lambda _, live: min(live))
            for server in self.world.live:
                self.world.settle_server(server)
                self.check_served()
            for name in list(self.world.unsplit):
                self.world.split_wals(name)
            if not self.world.live:
                self.world.start_server()
        assert states(self.world) == {}
        assert self.world.hmaster_was_active or read_plans(zk, self.world.own) == ({}, {})  # an HMaster leaves our plans
        for row in self.world.all_rows:
            assert len(self.world.serving(row)) == 1, f"row {row} is served by {self.world.serving(row)}"

    def check_served(self) -> None:
        for row in self.world.all_rows:
            serving = self.world.serving(row)
            assert len(serving) <= 1, f"row {row} is served by {serving}"

    def close(self) -> None:
        self.kill_masters()
        for client in self.clients:
            disconnect(client)


def creates(write: object, folder: str) -> str | None:
    """Return the path of a region's znode that a write is about to create; None if it creates none."""
    for operation in getattr(write, "operations", ()):
        if isinstance(operation, Create) and operation.path.startswith(f"{folder}/"):
            return str(operation.path)
    return None


def legitimate(old: tuple[bytes, int] | None, new: tuple[bytes, int] | None, live: set[str]) -> bool:
    """Whether a row of the table, a step of a server's split or merge, or the end of its session leads from `old` to `new`."""
    before, after = state_of(old), state_of(new)
    if old is not None and new is not None and new[1] != old[1] + 1:
        return False
    if old is None and new is not None and new[1] != 0:
        return False
    if (before, after) in OF_SERVERS:
        return True
    if before is not None and after is None and server_of(old) not in live:
        return True  # cleared at a start, or ephemeral
    rules = [transition.rule for transition in Transition if transition is not Transition.CLEAR]
    return any(rule.after is after and (before in rule.before if before is not None else not rule.before) for rule in rules)


def server_of(znode: tuple[bytes, int] | None) -> str:
    server = decode_message(pb.RegionTransition, znode[0] if znode else b"", "?").server_name
    return f"{server.host_name},{server.port},{server.start_code}"


def state_of(znode: tuple[bytes, int] | None) -> RegionState | None:
    return None if znode is None else RegionState(decode_message(pb.RegionTransition, znode[0], "?").event_type_code)


def play(quorum: str, seed: int, steps: int) -> int:
    """Play a world to its end. Returns how many transitions it had."""
    this = Play(quorum, seed)
    try:
        for _ in range(steps):
            this.step()
        this.end()
        return this.transitions
    except Exception as error:
        error.add_note(f"the seed was {seed}")
        raise
    finally:
        this.close()


@pytest.fixture
def play_from(zookeeper: ZooKeeperServer) -> Callable[[int, int], int]:
    """`play_from(seed, worlds)` plays that many worlds and returns how many transitions they had."""

    def run(first: int, worlds: int) -> int:
        return sum(play(zookeeper.quorum, seed, STEPS_A_WORLD) for seed in range(first, first + worlds))

    return run


@pytest.mark.timeout(600)
def test_a_region_is_never_served_twice_and_ends_up_served_once(play_from: Callable[[int, int], int]) -> None:
    assert play_from(1, 8) > 100


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_a_region_is_never_served_twice_in_a_hundred_thousand_steps(play_from: Callable[[int, int], int]) -> None:
    assert play_from(1000, 250) > 5_000

"""Any interleaving of two claimers, HBase's claims, new WALs, deaths and lost sessions keeps each WAL queued, in the end once.

The steps are single writes to ZooKeeper, in an order that Hypothesis chooses.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError

from embedded.zookeeper import ZooKeeperServer
from tests.claimed import unclaimed
from tests.sessions import session_of
from tests.zk.claim_cluster import PEERS, ClaimCluster, Killed
from tests.zk.fixtures import SESSION_TIMEOUT_SECONDS
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, SERVER, expire, prefixed, wal
from tests.zk.stepped import Stepped
from walferry.base.zk.client import connect, disconnect
from walferry.hbase.layout import QueueLayout, ZNodes
from walferry.hbase.names import parse_queue_id
from walferry.hbase.values import decode_position, encode_lock, encode_position
from walferry.replication.queues.claims import classic as claim_classic
from walferry.replication.queues.claims.claim import claim, clean_up
from walferry.replication.queues.errors import ClaimHeld, ClaimLost, LiveServer, NoTarget, QueuesMoving

CLAIMERS = st.integers(0, 1)
SERVERS = (SERVER, OTHER)
MAX_WALS = 24


class Claiming(RuleBasedStateMachine):
    """DEAD has died with three queues; SERVER and OTHER may die too, while others come up."""

    quorum = ""
    layout = QueueLayout.HBASE2

    def __init__(self) -> None:
        super().__init__()
        self.hbase_zk = connect(self.quorum)
        self.at = ClaimCluster(self.hbase_zk, self.layout)
        self.positions = {key: self._position(values[0]) for key, values in self.at.queued().items()}
        self.first = dict(self.positions)
        self.zks: list[KazooClient] = [connect(self.quorum, session_timeout=SESSION_TIMEOUT_SECONDS) for _ in range(3)]
        self.claimers: list[Stepped | None] = [None, None]
        self.region_server: tuple[str, Stepped] | None = None  # a claiming server in the classic layouts, and its progress
        self.live = list(SERVERS)
        self.dead = [DEAD]
        self.runs = 0

    # What claimers do.

    @rule(claimer=CLAIMERS, which=st.integers(0, 9), retry=st.booleans())
    def begin(self, claimer: int, which: int, retry: bool) -> None:
        """Begin a new run, or a retry of the claimer's last one."""
        at_work = self.claimers[claimer]
        if at_work is not None and at_work.running:
            return
        self.runs += not retry
        server, run_id = self.dead[which % len(self.dead)], f"run {self.runs} of claimer {claimer}"
        self.claimers[claimer] = Stepped(self.zks[claimer], lambda zk: claim(session_of(zk, self.at), server, run_id, run_id))

    @precondition(lambda self: any(self.claimers))
    @rule(claimer=CLAIMERS, steps=st.integers(1, 8))
    def step(self, claimer: int, steps: int) -> None:
        at_work = self.claimers[claimer]
        for _ in range(steps if at_work else 0):
            at_work.step()
        self._check(at_work)

    @rule(claimer=CLAIMERS)
    def lose_session(self, claimer: int) -> None:
        expire(self.zks[claimer])

    @precondition(lambda self: any(self.claimers))
    @rule(claimer=CLAIMERS)
    def kill(self, claimer: int) -> None:
        """Kill the claimer (kill -9) and end its session; another process takes its place."""
        at_work = self.claimers[claimer]
        if at_work is not None and at_work.running:
            at_work.kill()
            expire(self.zks[claimer])

    # What HBase does.

    @precondition(lambda self: len(self.positions) < MAX_WALS)
    @rule(server=st.integers(0, 5), peer_id=st.sampled_from(PEERS))
    def roll(self, server: int, peer_id: str) -> None:
        if self.live:
            name = wal(100 + len(self.positions), self.live[server % len(self.live)])
            self.at.hbase.add_wal(self.live[server % len(self.live)], peer_id, name)
            self.positions[peer_id, name] = 0

    @precondition(lambda self: len(self.live) > 1)
    @rule(which=st.integers(0, 5))
    def die(self, which: int) -> None:
        server = self.live.pop(which % len(self.live))
        self.at.hbase.stop_server(server)
        self.dead.append(server)
        if self.region_server and self.region_server[0] == server:  # with its session
            self.region_server[1].kill()
            self.region_server = None

    @precondition(lambda self: len(self.dead) < 4)
    @rule()
    def start(self) -> None:
        server = f"rs-{len(self.dead)}.example.org,16020,18000000000{len(self.dead)}{len(self.live)}"
        if server not in self.live and server not in self.dead:
            self.at.hbase.start_server(server)
            self.live.append(server)

    @rule(which=st.integers(0, 9), queue=st.integers(0, 9), by=st.integers(0, 5))
    def hbase_claims(self, which: int, queue: int, by: int) -> None:
        """Have a RegionServer claim a queue: in 2.x by one multi; in the classic layouts it begins to."""
        dead, me = self.dead[which % len(self.dead)], self.live[by % len(self.live)]
        queues = [name for name in self.at.hbase.children(self.at.nodes.server_queues(dead)) if self.at.nodes.is_queue(name)]
        if not queues:
            return
        queue_id = queues[queue % len(queues)]
        if not self.at.nodes.locked:
            self.at.hbase.claim(dead, queue_id, by=me)
        elif self.region_server is None or not self.region_server[1].running:
            self.region_server = (me, Stepped(self.zks[2], lambda zk: claim_as_1_x(zk, self.at.nodes, dead, queue_id, me)))

    @precondition(lambda self: self.region_server is not None)
    @rule(steps=st.integers(1, 8))
    def hbase_goes_on(self, steps: int) -> None:
        for _ in range(steps):
            self.region_server[1].step()
        assert not isinstance(self.region_server[1].error, (NoNodeError, NotEmptyError)), "it would abort"

    # What a shipper does.

    @rule(which=st.integers(0, 99), by=st.integers(1, 1000))
    def ship(self, which: int, by: int) -> None:
        """Move a position on, wherever the WAL is found."""
        peer_id, name = list(self.positions)[which % len(self.positions)]
        path = next(path for path in self.at.hbase.queued(peer_id) if path.endswith(f"/{name}"))
        self.positions[peer_id, name] += by
        self.hbase_zk.set(path, prefixed(encode_position(self.positions[peer_id, name])))

    @invariant()
    def no_wal_is_lost_and_in_2_x_none_is_in_two_queues_and_no_position_moves_back(self) -> None:
        queued = {key: [self._position(value) for value in values] for key, values in self.at.queued().items()}
        assert set(queued) == set(self.positions), "a WAL is lost"
        if not self.at.nodes.locked:
            assert queued == {key: [position] for key, position in self.positions.items()}

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            for zk in (*self.zks, self.hbase_zk):
                disconnect(zk)

    def _end(self) -> None:
        """Let everything at work end, and have a run claim the rest: each WAL is queued once, with its position."""
        if self.region_server:
            self.region_server[1].finish()
        for at_work in self.claimers:
            if at_work is not None:
                at_work.finish()
                self._check(at_work)
        for server in unclaimed(session_of(self.hbase_zk, self.at)):
            claim(session_of(self.hbase_zk, self.at), server, "the end", "the end")
        assert unclaimed(session_of(self.hbase_zk, self.at)) == ()
        queued = {key: [self._position(value) for value in values] for key, values in self.at.queued().items()}
        assert {key: len(positions) for key, positions in queued.items()} == dict.fromkeys(self.positions, 1)
        for key, (position,) in queued.items():
            # In the classic layouts a position that is registered while HBase copies its WAL may stay behind with the original:
            # it comes along as it was copied then, never beyond what was registered.
            lowest = self.first.get(key, 0) if self.at.nodes.locked else self.positions[key]
            assert lowest <= position <= self.positions[key]
        for server in self.dead:
            clean_up(session_of(self.hbase_zk, self.at), server)
            assert not self.hbase_zk.exists(self.at.nodes.lock(server)), f"{server} is locked for ever"

    def _check(self, at_work: Stepped | None) -> None:
        """Check that a claimer was at most refused or killed, and did not break."""
        expected = (ClaimHeld, ClaimLost, Killed, LiveServer, NoTarget, QueuesMoving)
        if at_work is not None and at_work.error is not None and not isinstance(at_work.error, expected):
            raise at_work.error

    def _position(self, value: bytes) -> int:
        return decode_position(value, "")


def claim_as_1_x(zk: KazooClient, nodes: ZNodes, dead: str, queue_id: str, me: str) -> None:
    """ReplicationQueuesZKImpl.claimQueue of 1.7 without multi, and removeReplicatorIfQueueIsEmpty."""
    lock, old = nodes.lock(dead), nodes.queue(dead, queue_id)
    try:
        zk.create(lock, prefixed(encode_lock(nodes.queue_server(me))))
    except (NoNodeError, NodeExistsError):
        return
    try:
        try:
            names = zk.get_children(old)
        except NoNodeError:
            return
        new = nodes.queue(me, str(parse_queue_id(queue_id).claimed_from(dead)))
        _create_if_missing(zk, new, b"")
        for name in names:
            _create_if_missing(zk, f"{new}/{name}", zk.get(f"{old}/{name}")[0])
        for name in zk.get_children(old):
            zk.delete(f"{old}/{name}")
        zk.delete(old)
    finally:
        zk.delete(lock)
    try:
        if nodes.server_queues(dead) == nodes.queue_server(dead) and not zk.get_children(nodes.queue_server(dead)):
            zk.delete(nodes.queue_server(dead))
    except (NoNodeError, NotEmptyError):
        return


def _create_if_missing(zk: KazooClient, path: str, value: bytes) -> None:
    try:
        zk.create(path, value, makepath=True)
    except NodeExistsError:
        return


@pytest.fixture
def claiming(zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[QueueLayout, int, int], None]:
    """`claiming(layout, examples, steps)`. A claimer does not wait for a lock that another one holds."""
    monkeypatch.setattr(claim_classic, "LOCK_WAIT_SECONDS", 0.0)

    def run(layout: QueueLayout, examples: int, steps: int) -> None:
        machine = type("Machine", (Claiming,), {"quorum": zookeeper.quorum, "layout": layout})
        health = [HealthCheck.too_slow, HealthCheck.filter_too_much]
        limits = settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=health,
            phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking would take hours
        )
        run_state_machine_as_test(machine, settings=limits)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("layout", [QueueLayout.HBASE2, QueueLayout.CLASSIC])
@pytest.mark.timeout(900)
def test_no_interleaving_of_claims_loses_a_wal_or_leaves_it_in_two_queues(
    layout: QueueLayout, claiming: Callable[[QueueLayout, int, int], None]
) -> None:
    claiming(layout, 15, 40)


@pytest.mark.soak
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_interleaving_of_very_many_claims_does(layout: QueueLayout, claiming: Callable[[QueueLayout, int, int], None]) -> None:
    claiming(layout, 300, 60)

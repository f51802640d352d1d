"""Any interleaving of two shippers, HBase's own writes and lost sessions keeps every WAL, every position and one holder.

The steps are single operations in an order that Hypothesis chooses; the model remembers what each acknowledged edit allowed.
HBase may also write between any two calls of a shipper that reads the group, registers a position or finishes a WAL.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.fixtures import SESSION_TIMEOUT_SECONDS
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, expire, wal
from walferry.base.zk.client import connect, disconnect
from walferry.hbase.names import parse_queue_id
from walferry.hbase.values import decode_position
from walferry.replication.queues.errors import LastWal, LeaseHeld, LeaseLost, WalGone
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.queues.queue import QueuePlace
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.candidates import candidates
from walferry.shipping.garbage_collection import collect_garbage
from walferry.shipping.plan import groups_to_ship

SERVERS = (SERVER, DEAD, OTHER)
GROUP = wal(0, DEAD).rpartition(".")[0]
SHIPPERS = st.integers(0, 1)
WAL_LENGTH = 1000
# HBase's action while a shipper is at work, and the shipper's call that it precedes.
WRITES_BETWEEN = st.tuples(st.sampled_from(["nothing", "roll", "die", "claim"]), st.integers(0, 8), st.sampled_from(SERVERS))


class Shipping(RuleBasedStateMachine):
    """One peer, the WAL group of the server DEAD, which may die at any time, and two shippers."""

    quorum = ""

    def __init__(self) -> None:
        super().__init__()
        self.hbase_client = connect(self.quorum)
        self.hbase = HBaseZNodes.new(self.hbase_client)
        self.hbase.add_peer("p")
        self.hbase.start_server(DEAD)
        self.hbase.start_server(OTHER)
        self.clients: list[KazooClient] = [connect(self.quorum, session_timeout=SESSION_TIMEOUT_SECONDS) for _ in range(2)]
        self.leases: list[list[Lease]] = [[], []]  # all leases that each shipper has had, the newest last
        self.valid: list[bool] = [False, False]  # whether the shipper's newest lease is still valid
        self.created: list[str] = []
        self.finished: set[str] = set()  # WALs whose removal was allowed
        self.low: dict[str, int] = {}  # the largest position that a holder registered
        self.places: list[QueuePlace | None] = [None]  # where plans have seen the group
        self.alive = True
        self.at = (DEAD, "p")  # where the queue is
        self.roll()

    def teardown(self) -> None:
        for client in (*self.clients, self.hbase_client):
            disconnect(client)

    @precondition(lambda self: self.alive and len(self.created) < 6)
    @rule()
    def roll(self) -> None:
        """Queue a new WAL, as the server does before it uses the WAL."""
        name = wal(len(self.created) + 1, DEAD)
        self.hbase.add_wal(DEAD, "p", name)
        self.created.append(name)
        self.low[name] = 0

    @precondition(lambda self: self.alive)
    @rule()
    def die(self) -> None:
        self.hbase.stop_server(DEAD)
        self.alive = False

    @precondition(lambda self: not self.alive)
    @rule(by=st.sampled_from(SERVERS))
    def claim(self, by: str) -> None:
        """Have HBase move the queue to another server; the queue may move on when that server dies too."""
        server, queue_id = self.at
        if by in (server, DEAD) or by in parse_queue_id(queue_id).dead_servers:
            return
        new_id = self.hbase.claim(server, queue_id, by=by)
        if new_id is not None:
            self.at = (by, new_id)

    @rule(shipper=SHIPPERS)
    def lose_session(self, shipper: int) -> None:
        expire(self.clients[shipper])
        self.valid[shipper] = False

    @rule(shipper=SHIPPERS)
    def restart(self, shipper: int) -> None:
        """Kill the shipper's process and start it again."""
        disconnect(self.clients[shipper])
        self.clients[shipper] = connect(self.quorum, session_timeout=SESSION_TIMEOUT_SECONDS)
        self.valid[shipper] = False

    @rule(shipper=SHIPPERS)
    def take(self, shipper: int) -> None:
        held = any(self.valid)
        try:
            lease = acquire(session_of(self.clients[shipper], self.hbase), "p", GROUP, f"shipper {shipper}")
        except LeaseHeld:
            assert held
            return
        assert not held
        self.leases[shipper].append(lease)
        self.valid[shipper] = True

    @rule()
    def plan(self) -> None:
        """Have a driver look where the group lies."""
        self.places += [place for _, place in groups_to_ship(session_of(self.hbase_client, self.hbase), "p")]

    @precondition(lambda self: any(self.valid))
    @rule(plan=st.integers(0, 5), between=WRITES_BETWEEN)
    def read(self, plan: int, between: tuple[str, int, str]) -> None:
        """Have the holder read the group, beginning where a plan has seen it, perhaps long ago."""
        lease = self.leases[self.valid.index(True)][-1]
        before = (list(self.created), self.alive)
        with self._between(self.valid.index(True), between):
            found = candidates(lease.read(self.places[-1 - plan % len(self.places)]))
        after = (list(self.created), self.alive)
        allowed = [
            [(name, self.low[name]) for name in (created[:-1] if alive else created) if name not in self.finished]
            for (created, _), (_, alive) in product([before, after], repeat=2)
        ]
        assert [(wal.queued.name.text, wal.queued.position) for group in found for wal in group.wals] in allowed

    @precondition(lambda self: any(self.valid))
    @rule(plan=st.integers(0, 5), between=WRITES_BETWEEN)
    def list_wals(self, plan: int, between: tuple[str, int, str]) -> None:
        """Have the holder sweep the group that a plan has seen."""
        place = self.places[-1 - plan % len(self.places)]
        if place is not None:
            with self._between(self.valid.index(True), between):
                self.leases[self.valid.index(True)][-1].list_wals(place)

    @precondition(lambda self: any(self.leases))
    @rule(
        shipper=SHIPPERS,
        which=st.integers(0, 5),
        file=st.integers(0, 5),
        offset=st.integers(1, WAL_LENGTH),
        between=WRITES_BETWEEN,
    )
    def register(self, shipper: int, which: int, file: int, offset: int, between: tuple[str, int, str]) -> None:
        name = self.created[file % len(self.created)]
        self._write(shipper, which, between, lambda lease: self._register(lease, name, offset))

    @precondition(lambda self: any(self.leases))
    @rule(shipper=SHIPPERS, which=st.integers(0, 5), file=st.integers(0, 5), between=WRITES_BETWEEN)
    def finish(self, shipper: int, which: int, file: int, between: tuple[str, int, str]) -> None:
        name = self.created[file % len(self.created)]
        self._write(shipper, which, between, lambda lease: self._finish(lease, name))

    @precondition(lambda self: any(self.leases))
    @rule(shipper=SHIPPERS, which=st.integers(0, 5))
    def release(self, shipper: int, which: int) -> None:
        leases = self.leases[shipper]
        if leases:
            lease = leases[which % len(leases)]
            lease.release()
            if lease is leases[-1]:
                self.valid[shipper] = False

    @rule()
    def sweep(self) -> None:
        """Have another run's plan delete leftover leases."""
        source = SourceCluster(quorum="", wal_root="file:///hbase", znode_parent=self.hbase.nodes.base, root=self.hbase.root)
        collect_garbage(session_of(self.hbase_client, source), "p")

    @contextmanager
    def _between(self, shipper: int, between: tuple[str, int, str]) -> Iterator[None]:
        """Have HBase write before one of the calls that the shipper's client makes meanwhile, if there are that many."""
        what, number, by = between
        client, calls = self.clients[shipper], iter(range(number, -1, -1))
        call = client._call

        def disturbed(request: Any, result: Any) -> Any:
            if next(calls, None) == 0:
                if what == "roll" and self.alive and len(self.created) < 6:
                    self.roll()
                elif what == "die" and self.alive:
                    self.die()
                elif what == "claim" and not self.alive:
                    self.claim(by)
            return call(request, result)

        client._call = disturbed
        try:
            yield
        finally:
            client._call = call

    def _write(self, shipper: int, which: int, between: tuple[str, int, str], write: Callable[[Lease], None]) -> None:
        """Write by the shipper's newest lease, or by an old one that the shipper may still trust."""
        leases = self.leases[shipper]
        if not leases:
            return
        lease = leases[-1 - which % len(leases)]
        in_force = self.valid[shipper] and lease is leases[-1]
        before = self._queued()
        try:
            with self._between(shipper, between if in_force else ("nothing", 0, SERVER)):
                write(lease)
        except LeaseLost:
            assert not in_force
            assert self._queued() == before
        else:
            # Who has lost the lease and does not know it may find out that there is nothing to do.
            assert in_force or self._queued() == before

    def _register(self, lease: Lease, name: str, offset: int) -> None:
        try:
            lease.register_position(name, offset)
        except WalGone:
            assert name in self.finished
        else:
            self.low[name] = max(self.low[name], offset)

    def _finish(self, lease: Lease, name: str) -> None:
        was_alive, before = self.alive, self._names()
        try:
            removed = lease.remove_wal(name)
        except LastWal:
            assert was_alive
            assert not [other for other in before if self.created.index(other) > self.created.index(name)]
        else:
            assert not (self.alive and name == self.created[-1])
            assert removed == (name not in self.finished)
            self.finished.add(name)

    def _queued(self) -> dict[str, int]:
        values = self.hbase.values(self.hbase.queued("p"))
        return {path: decode_position(value, path) for path, value in values.items()}

    def _names(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self._queued()]

    @invariant()
    def every_unfinished_wal_is_queued_once_at_its_position(self) -> None:
        queued = self._queued()
        found = {path.rpartition("/")[2]: position for path, position in queued.items()}
        assert len(found) == len(queued)
        assert found == {name: self.low[name] for name in self.created if name not in self.finished}

    @invariant()
    def one_holder_at_most(self) -> None:
        assert self.valid.count(True) <= 1

    @invariant()
    def the_queue_is_gone_only_with_its_last_wal(self) -> None:
        server, queue_id = self.at
        there = self.hbase.zk.exists(self.hbase.nodes.queue(server, queue_id)) is not None
        assert there == (self.alive or self.finished != set(self.created))

    @invariant()
    def nothing_but_queues_lies_under_the_queues_znode(self) -> None:
        assert set(self.hbase.zk.get_children(self.hbase.nodes.queues)) <= set(SERVERS)


@pytest.mark.timeout(900)
def test_no_interleaving_loses_a_wal_moves_a_position_back_or_has_two_holders(zookeeper: ZooKeeperServer) -> None:
    run_shippings(zookeeper, examples=25, steps=40)


@pytest.mark.soak
def test_no_interleaving_of_very_many_does(zookeeper: ZooKeeperServer) -> None:
    run_shippings(zookeeper, examples=600, steps=60)


def run_shippings(zookeeper: ZooKeeperServer, examples: int, steps: int) -> None:
    machine = type("Machine", (Shipping,), {"quorum": zookeeper.quorum})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )

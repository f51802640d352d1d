"""The stream of closed WALs serves all managed peers of a source with one session, wakes by watches, and reads what changed."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.counted_site import DEAD as EVERY_DEAD
from tests.zk.counted_site import LARGE, PEERS, READS, Site, make_site
from tests.zk.hbase_znodes import DEAD, LAYOUTS, OTHER, SERVER, HBaseZNodes, expire, wal
from tests.zk.rolling_site import PEER, RollingSite, rolling_site
from walferry.base.zk import watcher as module
from walferry.hbase.layout import OwnZNodes, QueueLayout
from walferry.replication.queues import announcing, needed_rolls, roll_times
from walferry.replication.queues.closed_wals import BatchDue, ClosedWalsStream
from walferry.replication.queues.needed_rolls import RollChoice, read_rolls
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch

__all__ = ["make_site"]  # a fixture

LIMIT_SECONDS = 60
IDLE_SECONDS = 20
WAKES_A_SECOND = 10  # of all threads of this process, where the watch for stalls alone wakes twice


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.2)
    monkeypatch.setattr(announcing, "APART_SECONDS", 0.1)


@pytest.fixture
def no_rolls(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server has written anything."""
    monkeypatch.setattr(needed_rolls, "choose", lambda _: RollChoice(frozenset()))


@pytest.fixture
def source(hbase: HBaseZNodes, at: SourceCluster, no_rolls: None) -> SourceCluster:
    """Peers p and q have a WAL each that is being written; the peers idle, hidden and enabled are not to be shipped."""
    hbase.add_peer("q")
    hbase.add_peer("paused", config={"walferry.managed": "true", "walferry.paused": "true"})
    hbase.add_peer("hbase_s", config={})
    hbase.add_peer("enabled", state="ENABLED")
    for peer in ("p", "q", "paused", "hbase_s", "enabled"):
        hbase.add_wal(SERVER, peer, wal(1))
    return at


async def next_of(stream: ClosedWalsStream) -> Mapping[str, int]:
    """Return the peers that are announced next, because of closed WALs alone."""
    due = await asyncio.wait_for(stream.next(), LIMIT_SECONDS)
    assert not due.roll
    return due.peers


@asynccontextmanager
async def waiting(stream: ClosedWalsStream) -> AsyncIterator[Awaitable[Mapping[str, int]]]:
    """A task that has looked, found nothing and waits for a watch."""
    task = asyncio.ensure_future(next_of(stream))
    for _ in range(200):
        await asyncio.sleep(0.02)
        if stream._zk is not None and not stream._changed.is_set() and stream._zk._child_watchers:
            break
    await asyncio.sleep(0.3)
    assert not task.done(), task
    yield task
    task.cancel()


Change = Callable[[HBaseZNodes], object]


def roll(hbase: HBaseZNodes, *peers: str, to: int = 2) -> None:
    for peer in peers:
        hbase.add_wal(SERVER, peer, wal(to))


def become_managed(hbase: HBaseZNodes) -> None:
    roll(hbase, "hbase_s")
    hbase.set_config("hbase_s", {"walferry.managed": "true"})


def come_new(hbase: HBaseZNodes) -> None:
    hbase.add_peer("new")
    for at in (4, 5):
        hbase.add_wal(SERVER, "new", wal(at))


def resume(hbase: HBaseZNodes) -> None:
    roll(hbase, "paused")
    hbase.set_config("paused", {"walferry.managed": "true", "walferry.paused": "false"})


def disable(hbase: HBaseZNodes) -> None:
    roll(hbase, "enabled")
    hbase.set_state("enabled", "DISABLED")


def another_server(hbase: HBaseZNodes) -> None:
    hbase.start_server(OTHER)
    for at in (4, 5, 6):
        hbase.add_wal(OTHER, "q", wal(at, OTHER))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda hbase: roll(hbase, "q"), {"q": 1}),
        (another_server, {"q": 2}),
        (become_managed, {"hbase_s": 1}),
        (come_new, {"new": 1}),
        (resume, {"paused": 1}),
        (disable, {"enabled": 1}),
    ],
    ids=["a roll", "another server", "a peer becomes managed", "a new peer", "a peer is resumed", "a peer is disabled"],
)
def test_it_wakes_for_closed_wals_of_each_managed_peer(
    hbase: HBaseZNodes, source: SourceCluster, change: Change, found: Mapping[str, int]
) -> None:
    async def scenario() -> Mapping[str, int]:
        async with ClosedWalsStream(source) as stream, waiting(stream) as next_wals:
            await asyncio.to_thread(change, hbase)
            return await next_wals

    assert asyncio.run(scenario()) == found


def test_it_is_silent_about_others_peers_and_about_what_is_still_written(hbase: HBaseZNodes, source: SourceCluster) -> None:
    def others(hbase: HBaseZNodes) -> None:
        roll(hbase, "hbase_s", "paused", "enabled")
        hbase.start_server(OTHER)
        hbase.add_wal(OTHER, "p", wal(1, OTHER))

    async def scenario() -> Mapping[str, int]:
        async with ClosedWalsStream(source) as stream, waiting(stream) as next_wals:
            await asyncio.to_thread(others, hbase)
            await asyncio.sleep(1)
            await asyncio.to_thread(roll, hbase, "p")
            return await next_wals

    assert asyncio.run(scenario()) == {"p": 1}


def test_it_announces_what_waits_when_it_begins_and_again_after_a_crash(hbase: HBaseZNodes, source: SourceCluster) -> None:
    roll(hbase, "p", "q")

    async def once() -> Mapping[str, int]:
        async with ClosedWalsStream(source) as stream:
            return await next_of(stream)

    assert asyncio.run(once()) == asyncio.run(once()) == {"p": 1, "q": 1}


def test_a_peer_that_a_run_holds_is_announced_when_the_run_ends(
    hbase: HBaseZNodes, source: SourceCluster, new_client: Callable[[], KazooClient]
) -> None:
    run, lock = new_client(), OwnZNodes(source.root, source.nodes).peer_lock("p")

    def hold() -> None:
        run.ensure_path(lock)
        run.create(f"{lock}/held", ephemeral=True)
        roll(hbase, "p")

    async def scenario() -> Mapping[str, int]:
        async with ClosedWalsStream(source) as stream, waiting(stream) as next_wals:
            await asyncio.to_thread(hold)
            await asyncio.sleep(1)
            assert not asyncio.ensure_future(next_wals).done()
            await asyncio.to_thread(run.delete, f"{lock}/held")
            return await next_wals

    assert asyncio.run(scenario()) == {"p": 1}


def test_a_dead_server_s_wals_are_announced_if_no_recovery_ships_them(
    hbase: HBaseZNodes, source: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "AGAIN_SECONDS", 2.0)

    async def scenario() -> Mapping[str, int]:
        async with ClosedWalsStream(source) as stream, waiting(stream) as next_wals:
            await asyncio.to_thread(hbase.add_wal, OTHER, f"p-{DEAD}", wal(7, DEAD))
            await asyncio.sleep(1)
            assert not asyncio.ensure_future(next_wals).done()
            return await next_wals

    assert asyncio.run(scenario()) == {"p": 1}


def test_a_lost_session_loses_no_change(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> list[Mapping[str, int]]:
        found = []
        async with ClosedWalsStream(source) as stream:
            for peer in ("p", "q"):
                async with waiting(stream) as next_wals:
                    assert stream._zk is not None
                    await asyncio.to_thread(expire, stream._zk)
                    await asyncio.to_thread(roll, hbase, peer)
                    found.append(await next_wals)
        return found

    assert asyncio.run(scenario()) == [{"p": 1}, {"q": 1}]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_it_reads_each_layout_of_queues(hbase: HBaseZNodes, at: SourceCluster, no_rolls: None, layout: QueueLayout) -> None:
    source = replace(at, queue_layout=layout)
    nodes = source.nodes
    for number in (1, 2, 3):
        hbase.zk.create(nodes.wal(SERVER, "p", wal(number)), makepath=True)
    if nodes.locked:
        hbase.zk.create(nodes.lock(SERVER))

    async def scenario() -> Mapping[str, int]:
        async with ClosedWalsStream(source) as stream:
            return await next_of(stream)

    assert asyncio.run(scenario()) == {"p": 2}


def counting(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the requests of the streams' clients, by path."""
    requests: Counter[str] = Counter()
    connect = module.connect

    def counted(*args: Any, **kwargs: Any) -> Any:
        zk = connect(*args, **kwargs)
        send = zk._call

        def call(request: Any, result: Any) -> Any:
            if type(request).__name__ in READS:
                requests[request.path] += 1
            return send(request, result)

        zk._call = call
        return zk

    monkeypatch.setattr(module, "connect", counted)
    return requests


def test_a_change_costs_the_lists_that_have_changed_and_no_change_costs_nothing(
    make_site: Callable[[tuple[int, int]], Site], zookeeper: Any, no_rolls: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(LARGE)
    requests = counting(monkeypatch)
    source = replace(site.session.source, quorum=zookeeper.quorum)
    zk, nodes = site.session.zk, site.session.nodes
    names = [f"rs-{n:03}.example.org,16020,1700000000001" for n in range(site.servers)]
    queues = {nodes.queue(name, peer) for number, name in enumerate(names) if number % EVERY_DEAD != 1 for peer in PEERS}

    async def scenario() -> None:
        async with ClosedWalsStream(source) as stream:
            assert (await next_of(stream)).keys() == set(PEERS)
            assert queues <= requests.keys()
            assert {requests[queue] for queue in queues} == {1}
            async with waiting(stream) as next_wals:
                requests.clear()
                await asyncio.sleep(1)
                assert not requests
                changed = nodes.queue(names[0], "q")
                await asyncio.to_thread(zk.delete, f"{changed}/{wal(0, names[0])}")
                await asyncio.to_thread(zk.create, f"{changed}/{wal(99, names[0])}")
                assert (await next_wals).keys() == {"q"}
                assert {path for path in requests if path.startswith(nodes.queues)} <= {changed, nodes.queues}
                assert sum(requests.values()) <= 10 + 5 * len(PEERS)

    asyncio.run(scenario())


def test_closing_leaves_no_session(source: SourceCluster) -> None:
    async def scenario() -> bool:
        async with ClosedWalsStream(source) as stream, waiting(stream):
            client = stream._zk
        return client is not None and not client.connected

    assert asyncio.run(scenario())


def test_a_later_stream_goes_on_with_what_an_earlier_one_has_announced(hbase: HBaseZNodes, source: SourceCluster) -> None:
    roll(hbase, "p")

    async def scenario() -> Mapping[str, int]:
        async with ClosedWalsStream(source) as first:
            assert await next_of(first) == {"p": 1}
        async with ClosedWalsStream(source, first) as second, waiting(second) as next_wals:
            await asyncio.to_thread(roll, hbase, "q")
            return await next_wals

    assert asyncio.run(scenario()) == {"q": 1}


@pytest.fixture
def rolling(hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[RollingSite]:
    """Two servers that can be asked what they have written, and that roll."""
    monkeypatch.setattr(needed_rolls, "APART_MS", 1)
    monkeypatch.setattr(roll_times, "MIN_SECONDS", 0.5)
    with rolling_site(hbase, {"orders": 1}, servers=2) as site:
        yield site


def test_servers_that_have_written_are_to_roll_in_half_of_the_smallest_max_lag_and_idle_ones_are_not(
    rolling: RollingSite, hbase: HBaseZNodes, at: SourceCluster, zk: KazooClient
) -> None:
    hbase.set_config(PEER, {"walferry.managed": "true", "walferry.max_lag": "4"})
    hbase.add_peer("q")
    session = session_of(zk, at)

    async def scenario() -> None:
        async with ClosedWalsStream(at) as stream:
            for _ in range(2):  # the second roll is for edits that were counted before the first one and written after it
                due = await asyncio.wait_for(stream.next(), LIMIT_SECONDS)
                assert due == BatchDue({PEER: 0, "q": 0}, roll=True)
                await asyncio.to_thread(batch.roll, at, [PEER])
                announced = time.monotonic()
                await shipped(hbase)
            noted = await asyncio.to_thread(read_rolls, session)
            pending = asyncio.ensure_future(stream.next())
            await asyncio.sleep(3)
            assert not pending.done()  # the servers are idle, which is noted: their edits have no lag
            now = await asyncio.to_thread(read_rolls, session)
            assert {now[server].quiet_ms > noted[server].quiet_ms for server in noted} == {True}
            rolling.servers[0].write("orders")
            due = await asyncio.wait_for(pending, LIMIT_SECONDS)
            assert due.roll
            assert time.monotonic() - announced >= 2

    asyncio.run(scenario())


async def shipped(hbase: HBaseZNodes) -> None:
    """Take all closed WALs out of the peer's queues."""

    def ship() -> None:
        for server in hbase.children(hbase.nodes.rs):
            queue = hbase.nodes.queue(server, PEER)
            for name in sorted(hbase.children(queue))[:-1]:
                hbase.zk.delete(f"{queue}/{name}")

    await asyncio.to_thread(ship)


def test_a_run_that_rolls_ships_what_it_closes_without_another_announcement(
    rolling: RollingSite, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    async def scenario() -> None:
        async with ClosedWalsStream(at) as stream:
            assert (await asyncio.wait_for(stream.next(), LIMIT_SECONDS)).roll
            pending = asyncio.ensure_future(stream.next())
            await asyncio.to_thread(batch.roll, at, [PEER])
            await asyncio.sleep(2)
            assert not pending.done()
            await shipped(hbase)
            await asyncio.sleep(1)
            assert not pending.done()
            await asyncio.to_thread(batch.roll, at, [PEER])  # somebody else's
            assert await asyncio.wait_for(pending, LIMIT_SECONDS) == BatchDue({PEER: 2})

    asyncio.run(scenario())


@pytest.mark.slow
def test_an_idle_stream_sleeps(rolling: RollingSite, hbase: HBaseZNodes, at: SourceCluster) -> None:
    for _ in range(2):
        batch.roll(at, [PEER])

    def wakes() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw

    async def scenario() -> int:
        async with ClosedWalsStream(at) as stream:
            assert (await next_of(stream)).keys() == {PEER}  # what the rolls have closed
            await shipped(hbase)
            async with waiting(stream):
                before = wakes()
                await asyncio.sleep(IDLE_SECONDS)
                return wakes() - before

    assert asyncio.run(scenario()) <= WAKES_A_SECOND * IDLE_SECONDS

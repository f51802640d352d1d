"""The stream of dead servers names each once, even if it was not watched, and takes nothing else for a death."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, LastingZNodes, expire, wal
from walferry.base.zk import watcher
from walferry.base.zk.client import connect, disconnect
from walferry.hbase.layout import OwnZNodes
from walferry.replication.queues import dead_servers
from walferry.replication.queues.claims.steps import claim_hold
from walferry.replication.queues.dead_servers import DeadServer, DeadServersStream, ServersNotified
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster

LIMIT_SECONDS = 60


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(watcher, "RECONNECT_SECONDS", 0.2)


@pytest.fixture
def hbase(lasting_hbase: LastingZNodes) -> LastingZNodes:
    return lasting_hbase


def source_of(hbase: HBaseZNodes, quorum: str) -> SourceCluster:
    return SourceCluster(quorum=quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


def start(hbase: HBaseZNodes, *servers: str) -> None:
    """Start servers, each with a WAL queued for peer p."""
    for server in servers:
        if server != SERVER:
            hbase.start_server(server)
        hbase.add_wal(server, "p", wal(1, server))


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    start(hbase, SERVER, DEAD, OTHER)
    return source_of(hbase, zookeeper.quorum)


def names(found: tuple[DeadServer, ...]) -> list[str]:
    return [server.name for server in found]


@asynccontextmanager
async def waiting(stream: DeadServersStream) -> AsyncIterator[Awaitable[tuple[DeadServer, ...]]]:
    """Yield a task that has looked, found nothing and waits for a watch."""
    task = asyncio.ensure_future(asyncio.wait_for(stream.next(), LIMIT_SECONDS))
    for _ in range(200):
        await asyncio.sleep(0.02)
        if stream._zk is not None and not stream._changed.is_set() and stream._zk._child_watchers:
            break
    await asyncio.sleep(0.2)
    assert not task.done(), task
    yield task
    task.cancel()


def test_a_server_s_death_is_told_with_its_queues(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> tuple[DeadServer, ...]:
        async with DeadServersStream(source) as stream, waiting(stream) as found:
            await asyncio.to_thread(hbase.stop_server, DEAD)
            return await found

    (dead,) = asyncio.run(scenario())
    assert (dead.name, [queue.ref for queue in dead.queues]) == (DEAD, [f"{DEAD}/p"])


def test_servers_that_died_while_nobody_watched_are_told_at_once_and_once(hbase: HBaseZNodes, source: SourceCluster) -> None:
    for server in (DEAD, OTHER):
        hbase.stop_server(server)

    async def scenario() -> list[str]:
        async with DeadServersStream(source) as stream:
            found = await asyncio.wait_for(stream.next(), LIMIT_SECONDS)
            async with waiting(stream):
                await asyncio.to_thread(hbase.add_wal, SERVER, "p", wal(2))
                await asyncio.to_thread(hbase.claim, DEAD, "p", SERVER)
                await asyncio.sleep(1)
            return names(found)

    assert asyncio.run(scenario()) == [DEAD, OTHER]


def test_a_queue_that_hbase_has_claimed_already_is_told_of_its_dead_server(hbase: HBaseZNodes, source: SourceCluster) -> None:
    hbase.stop_server(DEAD)
    hbase.claim(DEAD, "p", SERVER)

    async def scenario() -> tuple[DeadServer, ...]:
        async with DeadServersStream(source) as stream:
            return await asyncio.wait_for(stream.next(), LIMIT_SECONDS)

    (dead,) = asyncio.run(scenario())
    assert (dead.name, [queue.ref for queue in dead.queues]) == (DEAD, [f"{SERVER}/p-{DEAD}"])


def test_the_next_death_is_told_alone_while_the_first_one_s_queues_are_still_there(
    hbase: HBaseZNodes, source: SourceCluster
) -> None:
    async def scenario() -> list[list[str]]:
        notified = []
        async with DeadServersStream(source) as stream:
            for server in (DEAD, OTHER):
                async with waiting(stream) as found:
                    await asyncio.to_thread(hbase.stop_server, server)
                    notified.append(names(await found))
        return notified

    assert asyncio.run(scenario()) == [[DEAD], [OTHER]]


def test_a_lost_session_or_a_starting_server_is_no_death(hbase: HBaseZNodes, source: SourceCluster) -> None:
    new = "rs-4.example.org,16020,1700000000004"

    async def scenario() -> list[str]:
        async with DeadServersStream(source) as stream, waiting(stream) as found:
            assert stream._zk is not None
            for _ in range(3):
                await asyncio.to_thread(expire, stream._zk)
                await asyncio.sleep(0.5)
            await asyncio.to_thread(start, hbase, new)
            await asyncio.sleep(0.5)
            await asyncio.to_thread(hbase.stop_server, new)
            return names(await found)

    assert asyncio.run(scenario()) == [new]


def test_a_death_during_a_lost_session_is_told(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> list[str]:
        async with DeadServersStream(source) as stream, waiting(stream) as found:
            assert stream._zk is not None
            await asyncio.to_thread(expire, stream._zk)
            await asyncio.to_thread(hbase.stop_server, DEAD)
            return names(await found)

    assert asyncio.run(scenario()) == [DEAD]


@pytest.mark.parametrize("state", ["ENABLED", "unmanaged"])
def test_a_peer_that_is_not_ours_to_ship_makes_no_death_ours(hbase: HBaseZNodes, source: SourceCluster, state: str) -> None:
    for server in (SERVER, DEAD, OTHER):
        hbase.zk.delete(hbase.nodes.queue(server, "p"), recursive=True)
    hbase.add_peer("q", "ENABLED" if state == "ENABLED" else "DISABLED", None if state == "ENABLED" else {})
    hbase.add_wal(DEAD, "q", wal(1, DEAD))

    async def scenario() -> list[str]:
        async with DeadServersStream(source) as stream, waiting(stream) as found:
            await asyncio.to_thread(hbase.stop_server, DEAD)
            await asyncio.sleep(1)
            await asyncio.to_thread(hbase.add_wal, OTHER, "p", wal(1, OTHER))
            await asyncio.to_thread(hbase.stop_server, OTHER)
            return names(await found)

    assert asyncio.run(scenario()) == [OTHER]


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path) as server:
        yield server


def test_an_ensemble_that_is_away_for_a_while_is_no_death(own_server: ZooKeeperServer) -> None:
    client = connect(own_server.quorum)
    hbase = LastingZNodes.new(client)
    hbase.add_peer("p")
    start(hbase, SERVER, DEAD)
    source = source_of(hbase, own_server.quorum)

    async def scenario() -> list[str]:
        async with DeadServersStream(source) as stream, waiting(stream) as found:
            await asyncio.to_thread(own_server.stop)
            await asyncio.sleep(2)
            await asyncio.to_thread(own_server.start)
            await asyncio.sleep(2)
            assert not asyncio.ensure_future(found).done()
            await asyncio.to_thread(client.retry, hbase.stop_server, DEAD)
            return names(await found)

    assert asyncio.run(scenario()) == [DEAD]
    disconnect(client)


@pytest.mark.parametrize("delay", [0.0, 0.1, 1.0])
def test_cancelled_at_any_moment_it_leaves_no_thread(source: SourceCluster, delay: float) -> None:
    threads = set(threading.enumerate())

    async def scenario() -> None:
        async def watch() -> None:
            async with DeadServersStream(source) as stream:
                await stream.next()

        task = asyncio.ensure_future(watch())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    for thread in set(threading.enumerate()) - threads:
        thread.join(30)
    assert set(threading.enumerate()) <= threads


AGAIN_SECONDS = 0.5
MAX_AGAIN_SECONDS = 2 * AGAIN_SECONDS


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_servers, "AGAIN_SECONDS", AGAIN_SECONDS, raising=False)
    monkeypatch.setattr(dead_servers, "MAX_AGAIN_SECONDS", MAX_AGAIN_SECONDS, raising=False)


def test_what_nobody_drains_is_told_again_after_growing_pauses(
    hbase: HBaseZNodes, source: SourceCluster, impatient: None
) -> None:
    """The run that was started may have failed and left the queues as they were."""
    hbase.stop_server(DEAD)

    async def scenario() -> list[float]:
        pauses, due = [], 0.0
        async with DeadServersStream(source) as stream:
            for _ in range(4):
                began = time.monotonic()
                assert names(await asyncio.wait_for(stream.next(), LIMIT_SECONDS)) == [DEAD]
                assert time.monotonic() >= due
                pauses.append(stream.notified[DEAD].pause)
                due = stream.notified[DEAD].due
                assert due >= began + pauses[-1]
        return pauses

    assert asyncio.run(scenario()) == [AGAIN_SECONDS, *[MAX_AGAIN_SECONDS] * 3]


async def put_off(stream: DeadServersStream) -> ServersNotified:
    """Wait until a look puts the next announcement of the dead server off."""
    due, give_up = stream.notified[DEAD].due, asyncio.get_running_loop().time() + LIMIT_SECONDS
    while stream.notified[DEAD].due == due:
        assert asyncio.get_running_loop().time() < give_up
        await asyncio.sleep(0.02)
    return stream.notified[DEAD]


@pytest.mark.parametrize("by", ["claim", "lease"])
def test_a_run_in_progress_is_not_told_again(
    hbase: HBaseZNodes, source: SourceCluster, impatient: None, new_client: Callable[[], KazooClient], by: str
) -> None:
    hbase.stop_server(DEAD)
    zk = new_client()

    async def scenario() -> list[str]:
        async with DeadServersStream(source) as stream:
            await stream.next()
            if by == "lease":
                held = acquire(session_of(zk, source), "p", wal(0, DEAD).rpartition(".")[0], "run 1")
            else:
                held = claim_hold(zk, OwnZNodes(source.root, source.nodes).claim(DEAD), DEAD)
                held.acquire("run 1")
            # One wait to the end: a cancelled wait's look goes on in a thread, and its announcement is lost.
            again = asyncio.ensure_future(asyncio.wait_for(stream.next(), LIMIT_SECONDS))
            for _ in range(2):
                assert (await put_off(stream)).pause == AGAIN_SECONDS  # an announcement would have doubled it
            assert not again.done()
            await asyncio.to_thread(held.release)
            return names(await again)

    assert asyncio.run(scenario()) == [DEAD]


def test_queues_that_change_put_the_next_announcement_off(hbase: HBaseZNodes, source: SourceCluster) -> None:
    """A run takes WALs out, or HBase moves them."""
    hbase.stop_server(DEAD)

    async def scenario() -> tuple[ServersNotified, ServersNotified]:
        async with DeadServersStream(source) as stream:
            await stream.next()
            before = stream.notified[DEAD]
            again = asyncio.ensure_future(stream.next())
            await asyncio.to_thread(hbase.add_wal, DEAD, "p", wal(2, DEAD))
            after = await put_off(stream)
            assert not again.done()
            again.cancel()
            return before, after

    before, after = asyncio.run(scenario())
    assert after.dead != before.dead
    assert (after.due > before.due, after.pause) == (True, before.pause)


def test_a_server_whose_queues_are_gone_is_not_told_again(hbase: HBaseZNodes, source: SourceCluster, impatient: None) -> None:
    hbase.stop_server(DEAD)

    async def scenario() -> None:
        async with DeadServersStream(source) as stream:
            await stream.next()
            await asyncio.to_thread(hbase.zk.delete, source.nodes.queue(DEAD, "p"), recursive=True)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.next(), 4 * AGAIN_SECONDS)

    asyncio.run(scenario())

"""The stream of new WALs wakes by watches, survives lost sessions and restarts, and leaves nothing when it is closed."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from embedded.zookeeper import ZooKeeperServer
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, expire, wal
from walferry.base.zk import watcher as module
from walferry.base.zk.client import connect, disconnect
from walferry.hbase.errors import EnabledPeer, MissingPeer
from walferry.replication.queues.new_wals import NewWals, NewWalsStream
from walferry.replication.source.cluster import SourceCluster

GROUP, DEAD_GROUP = (wal(0, server).rpartition(".")[0] for server in (SERVER, DEAD))
LIMIT_SECONDS = 60


@pytest.fixture(autouse=True)
def _no_settling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(module, "RECONNECT_SECONDS", 0.2)


def source_of(hbase: HBaseZNodes, quorum: str) -> SourceCluster:
    return SourceCluster(quorum=quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)


@asynccontextmanager
async def waiting(stream: NewWalsStream) -> AsyncIterator[Awaitable[NewWals]]:
    """A task that has looked, found nothing and waits for a watch."""
    task = asyncio.ensure_future(asyncio.wait_for(stream.next(), LIMIT_SECONDS))
    for _ in range(200):
        await asyncio.sleep(0.02)
        if stream._zk is not None and not stream._changed.is_set() and stream._zk._child_watchers:
            break
    await asyncio.sleep(0.2)
    assert not task.done(), task
    yield task
    task.cancel()


def sessions(quorum: str) -> int:
    """Return how many clients the server has, by its own count."""
    host, port = quorum.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as command:
        command.sendall(b"cons")
        answer = b""
        while more := command.recv(65536):
            answer += more
    return answer.count(b"sid=")


def eventually(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(600):
        if condition():
            return
        pause.wait(0.05)
    assert condition()


@pytest.fixture
def source(hbase: HBaseZNodes, zookeeper: ZooKeeperServer) -> SourceCluster:
    hbase.add_wal(SERVER, "p", wal(1))
    return source_of(hbase, zookeeper.quorum)


Change = Callable[[HBaseZNodes], object]


def roll(hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(2))


def new_queue_of_a_dead_server(hbase: HBaseZNodes) -> None:
    hbase.add_wal(OTHER, f"p-{DEAD}", wal(7, DEAD))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (roll, NewWals({GROUP: 1}, 1)),
        (lambda hbase: hbase.stop_server(SERVER), NewWals({GROUP: 1}, 1)),
        (new_queue_of_a_dead_server, NewWals({DEAD_GROUP: 7}, 1)),
    ],
    ids=["a roll", "a server's death", "a recovered queue"],
)
def test_it_wakes_when_a_wal_is_closed(hbase: HBaseZNodes, source: SourceCluster, change: Change, found: NewWals) -> None:
    async def scenario() -> NewWals:
        async with NewWalsStream(source, "p", "k") as stream, waiting(stream) as next_wals:
            await asyncio.to_thread(change, hbase)
            return await next_wals

    assert asyncio.run(scenario()) == found


def test_it_does_not_wake_for_what_is_not_closed_or_another_peer_s(hbase: HBaseZNodes, source: SourceCluster) -> None:
    hbase.add_peer("q")

    async def scenario() -> NewWals:
        async with NewWalsStream(source, "p", "k") as stream, waiting(stream) as next_wals:
            for timestamp in (1, 2):
                await asyncio.to_thread(hbase.add_wal, SERVER, "q", wal(timestamp))
            await asyncio.to_thread(hbase.start_server, OTHER)
            await asyncio.to_thread(hbase.add_wal, OTHER, "p", wal(1, OTHER))
            await asyncio.sleep(1)
            await asyncio.to_thread(roll, hbase)
            return await next_wals

    assert asyncio.run(scenario()) == NewWals({GROUP: 1}, 1)


def test_what_is_committed_does_not_come_again(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> list[NewWals]:
        found = []
        async with NewWalsStream(source, "p", "k") as stream:
            for timestamp in (2, 3, 4):
                await asyncio.to_thread(hbase.add_wal, SERVER, "p", wal(timestamp))
                found.append(await asyncio.wait_for(stream.next(), LIMIT_SECONDS))
                assert await stream.commit(found[-1].newest)
            async with waiting(stream):
                pass
        return found

    assert asyncio.run(scenario()) == [NewWals({GROUP: timestamp}, 1) for timestamp in (1, 2, 3)]


def test_it_comes_again_to_who_did_not_commit(hbase: HBaseZNodes, source: SourceCluster) -> None:
    roll(hbase)

    async def once() -> NewWals:
        async with NewWalsStream(source, "p", "k") as stream:
            return await asyncio.wait_for(stream.next(), LIMIT_SECONDS)

    assert asyncio.run(once()) == asyncio.run(once()) == NewWals({GROUP: 1}, 1)


def test_a_lost_session_loses_no_change(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> list[NewWals]:
        found = []
        async with NewWalsStream(source, "p", "k") as stream:
            for timestamp in (2, 3):
                async with waiting(stream) as next_wals:
                    assert stream._zk is not None
                    before = stream._zk.client_id
                    await asyncio.to_thread(expire, stream._zk)
                    await asyncio.to_thread(hbase.add_wal, SERVER, "p", wal(timestamp))
                    found.append(await next_wals)
                    assert stream._zk.client_id != before
                    await stream.commit(found[-1].newest)
        return found

    assert asyncio.run(scenario()) == [NewWals({GROUP: 1}, 1), NewWals({GROUP: 2}, 1)]


def test_it_watches_on_after_a_lost_session_without_any_change(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> NewWals:
        async with NewWalsStream(source, "p", "k") as stream, waiting(stream) as next_wals:
            assert stream._zk is not None
            await asyncio.to_thread(expire, stream._zk)
            await asyncio.sleep(2)
            await asyncio.to_thread(roll, hbase)
            return await next_wals

    assert asyncio.run(scenario()) == NewWals({GROUP: 1}, 1)


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path) as server:
        yield server


def test_a_restarted_server_loses_no_change(own_server: ZooKeeperServer) -> None:
    client = connect(own_server.quorum)
    hbase = HBaseZNodes.new(client)
    hbase.add_peer("p")
    hbase.add_wal(DEAD, f"p-{SERVER}", wal(1))
    source = source_of(hbase, own_server.quorum)

    async def scenario() -> list[NewWals]:
        async with NewWalsStream(source, "p", "k") as stream:
            first = await asyncio.wait_for(stream.next(), LIMIT_SECONDS)
            await stream.commit(first.newest)
            async with waiting(stream) as next_wals:
                await asyncio.to_thread(own_server.stop)
                await asyncio.sleep(2)
                await asyncio.to_thread(own_server.start)
                await asyncio.to_thread(client.retry, hbase.add_wal, DEAD, f"p-{SERVER}", wal(2))
                return [first, await next_wals]

    assert asyncio.run(scenario()) == [NewWals({GROUP: 1}, 1), NewWals({GROUP: 2}, 1)]
    disconnect(client)


def test_an_ensemble_that_is_not_up_yet_is_waited_for(own_server: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect(own_server.quorum)
    hbase = HBaseZNodes.new(client)
    hbase.add_peer("p")
    hbase.add_wal(DEAD, "p", wal(1, DEAD))
    source = source_of(hbase, own_server.quorum)
    disconnect(client)
    own_server.stop()
    monkeypatch.setattr(module, "connect", lambda quorum, login: connect(quorum, timeout=1, login=login))

    async def scenario() -> NewWals:
        async with NewWalsStream(source, "p", "k") as stream:
            found = asyncio.ensure_future(stream.next())
            await asyncio.sleep(2)
            await asyncio.to_thread(own_server.start)
            return await asyncio.wait_for(found, LIMIT_SECONDS)

    assert asyncio.run(scenario()) == NewWals({DEAD_GROUP: 1}, 1)


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.1, 1.0])
def test_cancelled_at_any_moment_it_leaves_no_session_and_no_thread(
    source: SourceCluster, zookeeper: ZooKeeperServer, delay: float
) -> None:
    threads = set(threading.enumerate())
    before = sessions(zookeeper.quorum)

    async def scenario() -> None:
        async def watch() -> None:
            async with NewWalsStream(source, "p", "k") as stream:
                await stream.next()

        task = asyncio.ensure_future(watch())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    eventually(lambda: set(threading.enumerate()) <= threads)
    eventually(lambda: sessions(zookeeper.quorum) <= before)


def test_two_streams_of_different_keys_both_get_it(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> list[NewWals]:
        async with (
            NewWalsStream(source, "p", "one") as one,
            NewWalsStream(source, "p", "other") as other,
            waiting(one) as first,
            waiting(other) as second,
        ):
            await asyncio.to_thread(roll, hbase)
            return [await first, await second]

    assert asyncio.run(scenario()) == [NewWals({GROUP: 1}, 1)] * 2


def test_of_two_streams_of_one_key_one_commits(hbase: HBaseZNodes, source: SourceCluster) -> None:
    async def scenario() -> list[bool]:
        async with (
            NewWalsStream(source, "p", "k") as one,
            NewWalsStream(source, "p", "k") as other,
            waiting(one) as first,
            waiting(other) as second,
        ):
            await asyncio.to_thread(roll, hbase)
            found = [await first, await second]
            return list(await asyncio.gather(one.commit(found[0].newest), other.commit(found[1].newest)))

    assert sorted(asyncio.run(scenario())) == [False, True]


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda hbase: hbase.set_state("p", "ENABLED"), EnabledPeer),
        (lambda hbase: hbase.zk.delete(hbase.nodes.peer("p"), recursive=True), MissingPeer),
    ],
    ids=["enabled", "removed"],
)
def test_a_peer_that_is_enabled_or_removed_ends_the_wait(
    hbase: HBaseZNodes, source: SourceCluster, change: Change, error: type[Exception]
) -> None:
    hbase.add_peer("another")

    async def scenario() -> None:
        async with NewWalsStream(source, "p", "k") as stream, waiting(stream) as next_wals:
            await asyncio.to_thread(change, hbase)
            await next_wals

    with pytest.raises(error):
        asyncio.run(scenario())

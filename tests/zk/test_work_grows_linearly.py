"""A plan and a job's tasks make requests in proportion to what is queued, however many servers, peers and WALs there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes, LastingZNodes, wal
from walferry.files import listing, store, systems
from walferry.queues.dead_servers import recovered_queues
from walferry.queues.lease import acquire
from walferry.queues.new_wals import find_new
from walferry.shipping.candidates import candidates
from walferry.shipping.plan import bytes_queued, groups_to_ship, plan_peer
from walferry.shipping.sweeping import sweep
from walferry.source.session import Session

PEERS = ("p", "q", "r")
READS = ("GetData", "GetChildren", "GetChildren2", "Exists")
SMALL, LARGE = (3, 60), (12, 60)  # servers, and WALs of each
DEAD = 3  # every third server has died, and a live one has claimed its queue


class Site:
    """A cluster with so many servers and WALs, the files of these, and what is asked of ZooKeeper and of the file system."""

    def __init__(self, hbase: HBaseZNodes, zk: KazooClient, folder: Path, servers: int, wals: int) -> None:
        self.servers, self.wals = servers, wals
        self.requests: Counter[str] = Counter()
        source = session_of(zk, hbase).source
        self.session = Session(replace(source, wal_root=f"file://{folder}"), zk)
        names = [f"rs-{n:03}.example.org,16020,1700000000001" for n in range(servers)]
        for number, server in enumerate(names):
            dead = number % DEAD == 1
            if not dead:
                hbase.start_server(server)
            for peer in PEERS:
                queue = f"{peer}-{server}" if dead else peer
                for timestamp in range(wals):
                    hbase.add_wal(names[0] if dead else server, queue, wal(timestamp, server), None if timestamp else 7)
            (folder / "WALs" / server).mkdir(parents=True)
            (folder / "oldWALs").mkdir(exist_ok=True)
            for timestamp in range(wals):
                newest = timestamp == wals - 1
                place = folder / "WALs" / server if newest and not dead else folder / "oldWALs"
                (place / wal(timestamp, server)).write_bytes(b"PWAL" + bytes(80_000 if timestamp == 0 else 100))

    @property
    def znodes(self) -> int:
        """Of one peer's queues."""
        return self.servers * (1 + self.wals)

    @contextmanager
    def counted(self) -> Iterator[Counter[str]]:
        """The requests of a block, by kind."""
        self.requests.clear()
        yield self.requests


@pytest.fixture
def make_site(
    new_client: Callable[[], KazooClient], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[tuple[int, int]], Site]:
    def make(size: tuple[int, int]) -> Site:
        hbase = LastingZNodes.new(new_client())
        for peer in PEERS:
            hbase.add_peer(peer)
        zk = new_client()
        site = Site(hbase, zk, tmp_path / str(size[0]), *size)
        send = zk._call

        def call(request: Any, result: Any) -> Any:
            site.requests["reads" if type(request).__name__ in READS else "writes"] += 1
            return send(request, result)

        monkeypatch.setattr(zk, "_call", call)
        for module, name in ((systems, "open_wal"), (store, "file_size"), (store, "open_wal"), (listing, "list_folder")):
            monkeypatch.setattr(module, name, _counting(getattr(module, name), site.requests))
        return site

    return make


def _counting(function: Callable[..., Any], requests: Counter[str]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        requests[function.__name__] += 1
        return function(*args, **kwargs)

    return counted


def ship_nothing(site: Site) -> None:
    """What the driver and all tasks of a job ask ZooKeeper for on behalf of one peer."""
    for group, place in groups_to_ship(site.session, "p"):
        with acquire(site.session, "p", group, "task") as lease:
            (found,) = candidates(lease.read(place))
            for candidate in found.wals:
                lease.register_position(candidate.queued.name.text, 100)
                lease.remove_wal(candidate.queued.name.text)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_plan_lists_each_queue_and_each_folder_once_and_reads_few_positions(
    make_site: Callable[[tuple[int, int]], Site], size: tuple[int, int]
) -> None:
    site = make_site(size)
    with site.counted() as requests:
        plan = plan_peer(site.session, "p")
    assert sum(len(group.wals) for group in plan.groups) == site.servers * (site.wals - 1) + (site.servers + 1) // DEAD
    assert all(wal.size for group in plan.groups for wal in group.wals)
    assert requests["reads"] <= 10 + 4 * site.servers
    assert requests["list_folder"] <= 2 + site.servers
    assert requests["file_size"] == 0


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_the_size_of_what_is_queued_is_known_without_a_look_into_files(
    make_site: Callable[[tuple[int, int]], Site], size: tuple[int, int]
) -> None:
    site = make_site(size)
    plan = plan_peer(site.session, "p")
    with site.counted() as requests:
        assert bytes_queued(site.session, "p") == sum(group.bytes_left for group in plan.groups) > 80_000
        assert bytes_queued(site.session, "p", [plan.groups[0].group]) == plan.groups[0].bytes_left
    assert requests["reads"] <= 2 * (10 + 4 * site.servers)
    assert requests["list_folder"] <= 2 * (2 + site.servers)
    assert requests["open_wal"] == requests["file_size"] == 0


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_the_tasks_of_a_job_read_at_most_twice_what_they_ship(
    make_site: Callable[[tuple[int, int]], Site], size: tuple[int, int]
) -> None:
    site = make_site(size)
    with site.counted() as requests:
        ship_nothing(site)
    assert [len(group) for group, _ in groups_to_ship(site.session, "p")] == []
    assert site.znodes < requests["reads"] <= 2 * site.znodes
    assert requests["writes"] <= 3 * site.znodes


def test_looking_for_new_wals_and_dead_servers_reads_no_wal(make_site: Callable[[tuple[int, int]], Site]) -> None:
    site = make_site(LARGE)
    for look in (lambda: find_new(site.session, "p", "key"), lambda: recovered_queues(site.session, "p")):
        with site.counted() as requests:
            assert look()
        assert requests["reads"] <= 20 + 3 * site.servers


def test_a_sweep_asks_for_each_group_s_queue_once(make_site: Callable[[tuple[int, int]], Site]) -> None:
    site = make_site(LARGE)
    plan = plan_peer(site.session, "p")
    idle = replace(
        plan,
        groups=tuple(replace(g, wals=tuple(replace(w, finished=True) for w in g.wals)) for g in plan.groups),
    )
    with site.counted() as requests:
        swept = sweep(site.session, idle, "plan")
    assert swept.wals == sum(len(group.wals) for group in plan.groups)
    assert requests["reads"] <= 20 * site.servers

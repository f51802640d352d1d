"""A plan and a job's tasks make requests in proportion to the queued WALs, however many servers, peers and WALs there are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.zk.counted_site import DEAD, LARGE, SMALL, Site, make_site
from walferry.replication.queues.dead_servers import recovered_queues
from walferry.replication.queues.lease import acquire
from walferry.replication.queues.new_wals import find_new
from walferry.shipping.candidates import candidates
from walferry.shipping.plan import bytes_queued, groups_to_ship, plan_peer

__all__ = ["make_site"]  # a fixture


def ship_nothing(site: Site) -> None:
    """Make all requests to ZooKeeper that the driver and the tasks of a job make on behalf of one peer."""
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

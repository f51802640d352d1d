"""Errors in copying a group's shipped WALs to the archive delay no edit, and keep these WALs queued."""

from __future__ import annotations

import errno
import os
import time

import pytest

from tests.sessions import session_of
from tests.unit.hbase.rpc.fake_server import FakeServer
from tests.zk.archive_site import NAMES, Site, peer_cluster, site
from walferry.engine.summary import Status
from walferry.hbase.files import systems
from walferry.hbase.files.quarantine import BrokenWals
from walferry.shipping.plan import plan_peer

__all__ = ["peer_cluster", "site"]  # fixtures


def test_a_broken_archive_keeps_shipped_wals_queued_and_nothing_else(site: Site, peer_cluster: FakeServer) -> None:
    (site.folder / "archive").write_text("a file where the folder should be")
    summary = site.ship()
    assert summary.status is Status.FAILED
    assert f"WAL {NAMES[0]} is shipped, but stays queued because it could not be copied to the archive" in str(summary.error)
    assert summary.shippedCells == 2 * 400
    requests = len(peer_cluster.requests)
    ends = site.queued()
    assert set(ends) == {NAMES[0], NAMES[2]}
    assert all(ends[name] > len(site.files()[name]) - 20 for name in ends)  # nothing is left to ship
    (site.folder / "archive").unlink()
    (group,) = plan_peer(session_of(site.hbase.zk, site.at), "p").to_ship  # a plan does not take the WALs out of the queue
    assert [wal.to_archive for wal in group.wals] == [True, True]
    again = site.ship(run="again")
    assert (again.status, again.shippedCells, again.completedLogs) == (Status.DONE, 0, 2), again.error
    assert site.queued() == {}
    assert site.archived() == site.files()
    sent = [request for request in list(peer_cluster.requests)[requests:] if request.header.method_name == "ReplicateWALEntry"]
    assert not sent


def test_a_shipped_wal_whose_bytes_are_lost_leaves_the_queue_without_a_copy_if_the_run_is_told_so(
    site: Site, peer_cluster: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The WAL's block was lost after it had been shipped, and before it was copied."""
    (site.folder / "archive").write_text("a file where the folder should be")
    assert site.ship().status is Status.FAILED
    (site.folder / "archive").unlink()
    requests, read = len(peer_cluster.requests), systems.read_fd

    def broken(fd: int, offset: int, length: int) -> bytes:
        if os.readlink(f"/proc/self/fd/{fd}").endswith(NAMES[0]) and offset <= 200 < offset + length:
            raise OSError(errno.EIO, "Input/output error")
        return read(fd, offset, length)

    monkeypatch.setattr(systems, "read_fd", broken)
    summary = site.ship(run="again")
    assert summary.status is Status.FAILED
    assert f"WAL {NAMES[0]} is shipped, but stays queued" in str(summary.error)
    assert "at byte 200: the disk does not give these bytes" in str(summary.error)
    assert "All of its edits are shipped. The DAG quarantine_wal gives up its copy in" in str(summary.error)
    assert set(site.queued()) == {NAMES[0], NAMES[2]}
    given_up = site.ship(run="given up", broken=BrokenWals.QUARANTINE)
    assert (given_up.status, given_up.completedLogs, given_up.quarantinedLogs) == (Status.DONE, 2, 1), given_up.error
    assert site.queued() == {}
    assert site.archived() == {NAMES[2]: site.files()[NAMES[2]]}
    assert len((site.folder / "quarantine" / NAMES[0]).read_bytes()) == len(site.files()[NAMES[0]])
    sent = [request for request in list(peer_cluster.requests)[requests:] if request.header.method_name == "ReplicateWALEntry"]
    assert not sent


def test_a_run_whose_time_is_over_leaves_what_is_not_copied_queued(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.replication.retention.archive.copy_file", lambda *_: time.sleep(8))
    began = time.monotonic()
    summary = site.ship(deadline=4)
    assert time.monotonic() - began < 8
    assert (summary.status, summary.shippedCells) == (Status.DEADLINE, 800), summary.error
    assert set(site.queued()) == {NAMES[0], NAMES[2]}

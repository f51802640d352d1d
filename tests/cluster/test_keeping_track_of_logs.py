"""HBase's chapter *Keeping Track of Logs*, sentence by sentence, on real clusters.

a new WAL is in each peer's queue before it is used           test_a_server_that_dies_as_it_begins_a_wal_...
the peers' queues differ in size, and keep WALs from deletion test_a_peer_that_is_not_shipped_keeps_its_wals_...
a WAL leaves a queue only if another one is queued            the same, test_shipping.test_the_wal_that_is_being_written_...,
                                                              test_queues_on_hbase.test_positions_and_removals_...
WALs are archived if there are too many (maxlogs)             test_log_cleaner.test_wals_that_are_too_many_...
a WAL is found where it has been archived meanwhile           test_shipping.test_a_wal_that_was_archived_after_the_plan_...,
                                                              ..._that_is_archived_between_finding_and_opening_...
moving a WAL does not disturb its reader                      test_shipping.test_a_wal_that_is_archived_while_it_is_read_...,
                                                              test_storage_on_hdfs.test_a_wal_can_be_read_on_...
the cleaner looks into all queues, with a cache               test_log_cleaner, tests/zk/test_retention.py
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from kazoo.protocol.states import WatchedEvent

from embedded.client import GLOBAL, JavaClient, JavaClientError
from embedded.wire import put
from tests.cluster.test_shipping import archive, located
from tests.cluster.walferry_runs import positions, roll, ship_one, source_of
from walferry.base.zk.client import children
from walferry.engine.summary import Status
from walferry.hbase.files.store import WALS
from walferry.hbase.files.systems import list_entries
from walferry.hbase.names import parse_wal_name
from walferry.replication.retention.survey import Fate, list_old_wals, survey
from walferry.replication.source.session import open_session

WAIT_SECONDS = 120
NO_EDITS_BYTES = 93  # header and trailer


@pytest.mark.timeout(600)
def test_a_server_that_dies_as_it_begins_a_wal_has_queued_each_used_wal_for_each_peer(
    distributed_pair, java_client, managed_peer, unique
) -> None:
    """The server is frozen when the new WAL appears in a queue, while edits come in all the time, and then killed."""
    cluster = distributed_pair.source
    client, at = java_client(cluster.address), source_of(cluster.address)
    peers = [managed_peer(cluster.address, distributed_pair.peer_cluster.address) for _ in range(2)]
    table = unique("t")
    client.create_table(table, {"f": GLOBAL})
    (server,) = {region.server for region in client.regions(table)}
    index = [each.server_name for each in cluster.regionservers].index(server)
    pid = cluster.regionservers[index].process.pid
    frozen = threading.Event()

    def freeze(event: WatchedEvent) -> None:
        os.kill(pid, signal.SIGSTOP)
        frozen.set()

    load = client.start_load(table)
    with open_session(at) as session:
        paths = [session.nodes.queue(server, peer) for peer in peers]
        wait_until(lambda: load.status().acknowledged > 100, "edits come in")
        before = [children(session.zk, path, freeze if path == paths[0] else None) or [] for path in paths]
        rolling = threading.Thread(target=roll_or_give_up, args=(client,), daemon=True)
        rolling.start()
        assert frozen.wait(WAIT_SECONDS)
        queued = [set(children(session.zk, path) or ()) for path in paths]
        cluster.kill_regionserver(index)
        cluster.start_regionserver()
        new = queued[0] - set(before[0])
        assert len(new) == 1
        print(f"frozen with the new WAL in {sum(new <= names for names in queued)} of {len(peers)} queues")

        def fenced() -> bool:
            return not any(entry.name.startswith(server) for entry in list_entries(f"{at.wal_root}/{WALS}"))

        wait_until(fenced, "the dead server's WALs are archived")
        load.stop()
        used = [
            wal.name
            for wal in list_old_wals(session.store)
            if wal.is_wal  # the Master keeps files of its own there
            and parse_wal_name(wal.name).group == parse_wal_name(before[0][-1]).group
            and wal.name >= max(names[0] for names in before)  # the peers were added one after the other
            and wal.size > NO_EDITS_BYTES
        ]
        assert before[0][-1] in used
        for peer in peers:
            assert set(used) <= set(positions(at, peer)), f"an edit is in a WAL that was never queued for {peer}"
    rolling.join(WAIT_SECONDS)


def roll_or_give_up(client: JavaClient) -> None:
    """Ask for a roll that a server which is frozen, and then killed, may never answer."""
    with suppress(JavaClientError):
        client.roll_wals()


def wait_until(done: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + WAIT_SECONDS
    while not done():
        assert time.monotonic() < give_up, f"not within {WAIT_SECONDS} s: {what}"
        time.sleep(0.2)


def test_a_peer_that_is_not_shipped_keeps_its_wals_while_another_s_queue_is_drained(sides, both, peer, managed_peer) -> None:
    other = managed_peer(sides.source_cluster.address, sides.peer_hbase.address)
    table = both()
    for number in range(3):
        sides.source.write(table, [put(f"r{number}", {"f:a": b"1"})])
        roll(sides.at, peer)
    names = sorted(positions(sides.at, peer).keys() & positions(sides.at, other).keys())
    closed, newest = names[:-1], names[-1]
    archive(sides, closed)
    assert ship_one(sides.at, peer).status is Status.DONE
    (left,) = positions(sides.at, peer)  # it stays though shipped to its end: the server writes to it
    assert left >= newest
    assert set(closed) <= set(positions(sides.at, other))
    with open_session(sides.at, look_only=True) as session:
        found = survey(session, 0, time.time)
    holders = {each.wal.name: {queue.id.peer_id for queue in each.queues} for each in found.wals if each.fate is Fate.HELD}
    assert all(located(sides, name) and peer not in holders[name] and other in holders[name] for name in closed)
    assert ship_one(sides.at, other, run_id="other").status is Status.DONE
    with open_session(sides.at, look_only=True) as session:
        fates = {each.wal.name: each for each in survey(session, 0, time.time).wals}
    assert not any(other in {queue.id.peer_id for queue in fates[name].queues} for name in closed if name in fates)

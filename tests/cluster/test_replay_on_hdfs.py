"""An interval is shipped again from WALs on HDFS, including WALs of a server that died."""

from __future__ import annotations

import time

from embedded.client import GLOBAL, LOCAL
from tests.cluster.replaying import now, ship_again
from tests.cluster.test_replay import quick_appends
from tests.cluster.walferry_runs import is_untouched, positions, roll, source_of
from walferry.engine.summary import Status
from walferry.hbase.files.store import WALS
from walferry.hbase.files.systems import list_entries
from walferry.replay.interval import Interval

__all__ = ["quick_appends"]  # a fixture

WAIT_SECONDS = 120
SPLITS = [b"4", b"8", b"c"]  # of rows that are hexadecimal digits


def test_an_interval_in_which_a_server_died_is_shipped_again_from_hdfs(distributed_pair, java_client, managed_peer, unique):
    cluster = distributed_pair.source
    source, peer_cluster = java_client(cluster.address), java_client(distributed_pair.peer_cluster.address)
    peer, at, table = (
        managed_peer(cluster.address, distributed_pair.peer_cluster.address),
        source_of(cluster.address),
        unique("t"),
    )
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL, "l": LOCAL}, SPLITS)
    start = now()
    source.put_many(table, 500, ["f:a", "l:b"], batch=20)
    names = [server.server_name for server in cluster.regionservers]
    server = cluster.kill_regionserver(names.index(source.regions(table)[0].server)).server_name
    give_up = time.monotonic() + WAIT_SECONDS
    while any(entry.name.startswith(server) for entry in list_entries(f"{at.wal_root}/{WALS}")):
        assert time.monotonic() < give_up, f"the WALs of {server} are archived"
        time.sleep(0.2)
    source.put_many(table, 500, ["f:a", "l:b"], first=500, batch=20)
    interval = Interval(start, now())
    cluster.start_regionserver()  # after the interval, so it has no entries of it
    roll(at, peer)
    before = positions(at, peer)

    done = ship_again(at, peer, interval)
    assert {s.status for s in done} == {Status.DONE}, [s.error for s in done]
    assert sum(s.tables[table][1] for s in done if table in s.tables) == 1000
    assert server in {s.server for s in done if table in s.tables}
    assert source.compare(table, peer_cluster, families=["f"]).same
    assert peer_cluster.scan_all(table, ["l"]) == []
    assert is_untouched(before, positions(at, peer))

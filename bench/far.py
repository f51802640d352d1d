"""A backlog of a peer whose cluster is 50 ms away, drained by HBase's own replication and by Walferry in turns.

    PYTHONPATH=plugins python -m bench.far     WALFERRY_BENCH_FAR_MS (50): the round trip to the peer cluster's RegionServers

The peer cluster's RegionServers say that they are at another address, where proxies listen that delay what passes, each way by
half of the round trip (embedded.delay). The peer cluster's own servers reach each other without a delay, as do all of them
ZooKeeper and HDFS. The proxies pass on any number of bytes at once. So this shows what waiting for answers costs; it does not
show the limits of TCP's windows on a long line.

The other settings are bench.replication's; by default this is one table, of 284 MB, 4 regions and plain WALs.
"""

from __future__ import annotations

import os

from bench.drains import Aim
from bench.replication import Tables, run

FAR_MS = float(os.environ.get("WALFERRY_BENCH_FAR_MS", "50"))
# HFiles and WALPlayer's HFiles go to HDFS, which is near.
WAYS = "hbase; direct; direct, submitted; replicate"


if __name__ == "__main__":
    run(Tables.asked("284", "4", "plain", WAYS, round_trip=FAR_MS / 1000), lambda rows: [Aim("direct", times=5)])

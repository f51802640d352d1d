"""Warns before a RegionServer has so many WALs that HBase forces it to flush.

A WAL stays in WALs/<server> while it has edits that are only in memstores. Each roll of a server that is written to adds one. If
a server has more than `hbase.regionserver.maxlogs` besides its open one, HBase flushes the regions with the oldest edits, however
small their memstores are: that makes small files, and compactions (AbstractFSWAL.findRegionsToForceFlush). HBase flushes each
memstore after an hour anyway (hbase.regionserver.optionalcacheflushinterval), so rolls every five minutes add about twelve WALs.

Without the setting, HBase computes the limit when a server starts: as many WALs as twice its memstores may fill, and at least 32.
A server's web pages have the values for that. If they cannot be read, the limit counts as 32.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from walferry.base.findings import Finding, note
from walferry.base.zk.client import read
from walferry.hbase.files.store import WALS
from walferry.hbase.files.systems import list_folder
from walferry.hbase.names import ServerName, as_wal_name
from walferry.hbase.values import decode_info_port
from walferry.hbase.web_pages import NO_PAGE, configuration, read_page
from walferry.replication.source.session import Session

KIND = "un-flushed WALs"
MAX_LOGS = "hbase.regionserver.maxlogs"
LEAST_LIMIT = 32
NEAR = 0.75  # of the limit
LISTED_AT_ONCE = 16
SHOWN = 3
_MEMSTORES, _OLD_MEMSTORES = "hbase.regionserver.global.memstore.size", "hbase.regionserver.global.memstore.upperLimit"
_WAL_BLOCK, _MULTIPLIER, _BLOCK = "hbase.regionserver.hlog.blocksize", "hbase.regionserver.logroll.multiplier", "dfs.blocksize"
_KEYS = (MAX_LOGS, _MEMSTORES, _OLD_MEMSTORES, _WAL_BLOCK, _MULTIPLIER, _BLOCK)
_MEMORY = "/jmx?qry=java.lang:type=Memory"


def near_limit(session: Session, servers: Collection[ServerName]) -> list[Finding]:
    """Return a finding if some of these live servers have nearly as many WALs as HBase allows. Raises StoreError, ConnectError.

    The limit is read from the server with the most WALs, and only if these may be near it.
    """
    counts = _counts(session, servers)
    most = max(counts, key=lambda server: (counts[server], server), default=None)
    if most is None or counts[most] < NEAR * LEAST_LIMIT:
        return []
    limit, known = _limit(session, most)
    near = sorted((server for server in counts if counts[server] >= NEAR * limit), key=lambda server: (-counts[server], server))
    if not near:
        return []
    shown = ", ".join(f"{server} {counts[server]}" for server in near[:SHOWN]) + (", …" if len(near) > SHOWN else "")
    advice = "Let batches run less often, or without roll, or raise the setting; rolls are not the only cause if flushes fail"
    return [note(KIND, f"{len(near):,} RegionServers have many WALs with edits that are not flushed: {shown}. With more than "
                 f"{limit} ({known}) HBase forces flushes", advice)]  # fmt: skip


def _counts(session: Session, servers: Collection[ServerName]) -> dict[ServerName, int]:
    """Return how many closed WALs lie in each server's folder: of its group with the most, as the limit is for each group."""

    def count(server: ServerName) -> int:
        names = list_folder(f"{session.store.root}/{WALS}/{server}", lambda name: as_wal_name(name) is not None)
        wals = [wal for wal in map(as_wal_name, names) if wal is not None and not wal.is_meta]
        return max(Counter(wal.group for wal in wals).values(), default=1) - 1

    with ThreadPoolExecutor(LISTED_AT_ONCE) as pool:
        return dict(zip(servers, pool.map(count, servers), strict=True))


def _limit(session: Session, server: ServerName) -> tuple[int, str]:
    """Return the server's limit, and how it is known."""
    path = f"{session.nodes.rs}/{server}"
    znode = read(session.zk, path)
    port = decode_info_port(znode.value, path) if znode else None
    try:
        if port is not None:
            values = configuration(server.host, port, _KEYS)
            if MAX_LOGS in values:
                return int(values[MAX_LOGS]), MAX_LOGS
            return _computed(values, read_page(server.host, port, _MEMORY)), f"computed as HBase does without {MAX_LOGS}"
    except (*NO_PAGE, LookupError, TypeError, ArithmeticError):
        pass
    return LEAST_LIMIT, f"the least default of {MAX_LOGS}, as the servers' web pages do not show it"


def _computed(values: Mapping[str, str], memory: Mapping[str, Any]) -> int:
    """Return the limit that HBase computes. Raises LookupError, ValueError, TypeError, ZeroDivisionError."""
    heap = int(memory["beans"][0]["HeapMemoryUsage"]["max"])
    memstores = heap * float(values.get(_MEMSTORES) or values.get(_OLD_MEMSTORES) or 0.4)
    # By default HBase 2 rolls at half of two blocks of HDFS, and HBase 1 at 95 % of one.
    rolled_at = int(values[_WAL_BLOCK]) * float(values.get(_MULTIPLIER, 0.5)) if _WAL_BLOCK in values else int(values[_BLOCK])
    return max(LEAST_LIMIT, int(memstores * 2 / rolled_at))

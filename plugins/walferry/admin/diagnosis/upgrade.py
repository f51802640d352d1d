"""Checks what an upgrade of a source from HBase 2 to HBase 3 needs, before, during and after it.

HBase 3's Master moves the queues from ZooKeeper to table hbase:replication when it starts (docs/hbase-3.md).
"""

from __future__ import annotations

from collections.abc import Iterator

from walferry.base.findings import Finding, note, well, wrong
from walferry.base.zk.client import read
from walferry.hbase.cluster import live_servers, release
from walferry.hbase.layout import QueueLayout
from walferry.hbase.queue_table import QUEUE_TABLE
from walferry.hbase.rpc import master
from walferry.hbase.values import decode_server_version
from walferry.load.copy_records import under_way
from walferry.replication.peers.reading import ENABLED
from walferry.replication.queues.dead_servers import recovered_queues
from walferry.replication.source.agreement import asked
from walferry.replication.source.peers import read_peers
from walferry.replication.source.session import Session

KIND = "upgrade"
MAX_NAMED = 10
NEW_RELEASE = "3."


def upgrade_findings(session: Session) -> Iterator[Finding]:
    """Yield what stands in the way of the upgrade's next step, or that nothing does. Raises WalferryError."""
    peers = asked(session, master.list_peers)
    release_of_servers = release(session.zk, session.nodes) or ""
    if any(peer.HasField("syncReplicationState") for peer in peers) or (not peers and release_of_servers.startswith(NEW_RELEASE)):
        yield from _with_new_master(session)
    elif session.nodes.in_table:
        yield wrong(
            KIND, f"queue_layout is {QueueLayout.TABLE}, and the HMaster runs HBase 2", "Set it to 2.x until it runs HBase 3"
        )
    else:
        yield from _with_old_master(session)


def _with_new_master(session: Session) -> Iterator[Finding]:
    """Yield what is left to do once the Master runs HBase 3."""
    if not asked(session, master.has_moved_queues):
        yield wrong(KIND, "the HMaster is moving the queues", "Wait: batches are refused until it has, and then go on")
        return
    if not session.nodes.in_table:
        advice = f"Set queue_layout in the connection's extra to {QueueLayout.TABLE}"
        yield wrong(KIND, f"the HMaster has moved the queues to table {QUEUE_TABLE}, and batches are refused", advice)
        return
    if old := list(_old_servers(session)):
        advice = (
            "Upgrade them. Until then HBase's log cleaner deletes nothing, dead servers' queues are not claimed, and peers stay"
        )
        yield note(KIND, f"{len(old)} RegionServers still run HBase 2: {_named(old)}", f"{advice} as they are. Batches go on")
        return
    yield well(KIND, f"all servers run HBase 3, and batches read the queues in table {QUEUE_TABLE}")


def _with_old_master(session: Session) -> Iterator[Finding]:
    """Yield what is to be done before the Master is upgraded."""
    listing = read_peers(session)
    before: list[Finding] = [wrong(KIND, problem) for problem in listing.problems]
    if enabled := [peer.id for peer in listing.peers if peer.state == ENABLED]:
        before.append(note(
            KIND, f"peers are ENABLED: {_named(enabled)}",
            "If all servers are stopped for the upgrade, disable these peers first: HBase 3.0's Master does not get that done. "
            "If the HMaster is upgraded first and RegionServers one by one, it need not be done",
        ))  # fmt: skip
    if serial := [peer.id for peer in listing.peers if peer.managed and peer.serial]:
        advice = "With HBase 3 Walferry refuses serial peers: leave them to HBase, or make them not serial"
        before.append(note(KIND, f"managed peers are serial: {_named(serial)}", advice))
    if asked(session, master.is_claiming_queues):
        advice = "Wait until it is finished: HBase 3.0 goes on with it, and never ends"
        before.append(wrong(KIND, "HBase has not finished the claim of a dead server's queues", advice))
    if dead := recovered_queues(session):
        wals = sum(len(queue.wals) for queue in dead)
        advice = "Ship them first (`walferry failover`, `walferry drain`), or let HBase 3 take them over"
        before.append(note(KIND, f"{len(dead):,} queues of dead servers have {wals:,} WALs", advice))
    if copying := [peer.id for peer in listing.peers if peer.managed and under_way(session, peer.id) is not None]:
        advice = "Let it finish: no copy was tried across an upgrade"
        before.append(wrong(KIND, f"an initial snapshot is under way for {_named(copying)}", advice))
    yield from before
    if not before:
        yield well(
            KIND, "nothing stands in the way. Upgrade the HMaster, then set queue_layout to 3.x, then upgrade RegionServers"
        )


def _old_servers(session: Session) -> Iterator[str]:
    for server in sorted(live_servers(session.zk, session.nodes)):
        path = f"{session.nodes.rs}/{server}"
        version = decode_server_version(znode.value, path) if (znode := read(session.zk, path)) else None
        if version is not None and not version.startswith(NEW_RELEASE):
            yield str(server)


def _named(names: list[str]) -> str:
    return ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")

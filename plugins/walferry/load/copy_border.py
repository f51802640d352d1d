"""Finds out up to where a peer's queues are older than a copy that begins now.

A new peer's queue begins with each server's open WAL, at its first byte. So it contains old edits: edits of an earlier life of a
table, and edits without what undid them, because a truncation is in no WAL and a region may have moved to another server since.
Therefore all servers first begin new WALs. The edits of a closed WAL are then in the tables, or gone for good, before the
snapshots are taken: they are not shipped on top of the copy.

    roll each server's WAL
    read the peer's queues        the newest closed WAL of each group is the border
    take the snapshots            they contain some later edits; the queue contains all of these, in their order

A group that does not exist yet has no WALs before the border. If a server dies meanwhile, all its WALs are before the border: its
regions are open again, with everything it wrote, before a snapshot can be taken of them.

The archive may contain WALs of servers that died long before, and that are in no queue any more (replay/). So a WAL of any other
group is before the border, too, if it was begun well before the servers began their new WALs, by all these servers' clocks.
"""

from __future__ import annotations

from walferry.hbase.names import WalName
from walferry.load.errors import NotRolled
from walferry.load.records import Load
from walferry.replication.queues.queue import closed_groups, groups
from walferry.replication.queues.reading import list_queues
from walferry.replication.queues.rolling import roll
from walferry.replication.source.agreement import check_queues_complete
from walferry.replication.source.session import Session

SHOWN = 5  # servers in a message
SKEW_MS = 30_000  # between RegionServers' clocks: HBase's own limit (hbase.master.maxclockskew)


def find_border(session: Session, peer_id: str, run: str) -> Load:
    """Roll the source's WALs, and return which WALs are older than the copy that the run begins. Raises NotRolled, WalferryError.

    These are the WALs up to the newest closed one of each of the peer's groups.
    """
    failures = roll(session, [peer_id]).failures
    if failures:
        shown = "; ".join(f"{server}: {why}" for server, why in list(failures.items())[:SHOWN])
        raise NotRolled(
            f"{len(failures)} RegionServers of the source have not begun new WALs ({shown}), so the copy could not tell which "
            "edits are older than it",
            "Run again once they answer; Walferry's user needs global ADMIN at the source",
        )
    check_queues_complete(session, peer_id)
    newest: dict[str, WalName] = {}
    begun: list[int] = []
    for queue in list_queues(session, peer_id):
        if queue.live:
            begun += [wals[-1].name.timestamp for wals in groups(queue).values()]
        for group, wals in closed_groups(queue).items():
            names = [wal.name for wal in wals[-1:]] + ([newest[group]] if group in newest else [])  # its queue may be moving
            if names:
                newest[group] = max(names, key=lambda name: name.timestamp)
    others_before = max(0, min(begun) - SKEW_MS) if begun else 0
    groups_before = {group: name.text for group, name in newest.items()}
    return Load(run, groups_before, initial_snapshot=True, others_before=others_before)

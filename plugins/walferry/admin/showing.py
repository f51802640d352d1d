"""Peers and their queues in words, for `python -m walferry peers list` and `peers show`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from walferry.admin.handing_back import HANDED_BACK_KEY
from walferry.admin.peers import PeerAdmin
from walferry.files.systems import StoreError
from walferry.hbase.errors import MasterSilent, PeerError, StalePeer
from walferry.hbase.peers import Peer, check_shippable, read_peer, read_peers
from walferry.queues.reading import Queue, read_queues
from walferry.shipping.plan import PeerPlan, plan_peer
from walferry.source.agreement import check_agreement


@dataclass(frozen=True)
class Told:
    """What an operator asked to see. `problem` says what is missing from it or wrong with it, if anything is."""

    text: str
    problem: str | None = None


def table(peers: PeerAdmin) -> Told:
    """All peers, one a line, and then those that could not be read. Raises WalferryError."""
    listing = read_peers(peers.session.zk, peers.session.nodes)
    rows = [("ID", "STATE", "MANAGED", "QUEUES", "WALS", "SLAVE")]
    for peer in listing.peers:
        queues = read_queues(peers.session, peer.id)
        wals = sum(len(queue.wals) for queue in queues)
        rows.append((peer.id, peer.state, "yes" if peer.managed else "no", str(len(queues)), str(wals), peer.cluster_key))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    problem = None
    try:
        peers.session.store.check_root()
    except StoreError as error:
        problem = str(error)
    return Told("\n".join([*lines, *map(str, listing.problems)]), problem)


def describe(peers: PeerAdmin, peer_id: str) -> Told:
    """One peer with its queues and what is left to ship of them. Raises WalferryError."""
    peer = read_peer(peers.session.zk, peers.session.nodes, peer_id)
    queues = read_queues(peers.session, peer_id)
    stale = _disagreement(peers, peer_id)
    lines = [*_configuration(peer), *([f"  cannot be shipped by Walferry: {stale}"] if stale else []), *_queues(queues)]
    try:
        looking = replace(peers.session, look_only=True)
        looking.store.check_root()
        plan = plan_peer(looking, peer_id)
    except StoreError as error:
        problem = "; ".join(filter(None, (stale, str(error))))
        return Told("\n".join([*lines, "  left to ship of closed WALs: not known"]), problem)
    stuck = [group for group in plan.groups if group.problem]
    why = f"peer {peer_id}: {len(stuck)} of its WAL groups cannot be shipped as they are: see above" if stuck else None
    return Told("\n".join([*lines, *_left(plan)]), "; ".join(filter(None, (stale, why))) or None)


def _disagreement(peers: PeerAdmin, peer_id: str) -> str | None:
    """Why ZooKeeper's copy of the peer cannot be trusted; None if the Master agrees with it."""
    try:
        check_agreement(peers.session, peer_id)
    except (StalePeer, MasterSilent) as error:
        return str(error)
    return None


def _configuration(peer: Peer) -> list[str]:
    lines = [f"peer {peer.id} is {peer.state}, {'' if peer.managed else 'not '}managed by Walferry, to {peer.cluster_key}"]
    if successor := peer.config.get(HANDED_BACK_KEY):
        lines.append(f"  is being handed back to {successor}")
    lines.append(f"  edits of {_scope(peer)}")
    if peer.bandwidth:
        lines.append(f"  at most {peer.bandwidth:,} bytes a second")
    lines += [f"  {key} = {value}" for key, value in sorted(peer.config.items())]
    try:
        check_shippable(peer)
    except PeerError as error:
        lines.append(f"  cannot be shipped by Walferry: {error}")
    return lines


def _scope(peer: Peer) -> str:
    if peer.replicate_all:
        but = [*sorted(peer.exclude_namespaces), *_tables(peer.exclude_table_cfs)]
        return "all user tables" + (f" but {', '.join(but)}" if but else "")
    return ", ".join([*sorted(peer.namespaces), *_tables(peer.table_cfs)]) or "no table"


def _tables(table_cfs: Mapping[str, tuple[str, ...]] | None) -> list[str]:
    return [f"{name}={','.join(families)}" if families else name for name, families in sorted((table_cfs or {}).items())]


def _queues(queues: list[Queue]) -> list[str]:
    lines = [
        f"  queue {queue.id} at {queue.server} ({'live' if queue.live else 'dead or claimed'}): {len(queue.wals)} WALs"
        for queue in queues
    ]
    return [*(lines or ["  no queues"]), *(f"  {problem}" for queue in queues for problem in queue.problems)]


def _left(plan: PeerPlan) -> list[str]:
    """The bytes to ship of closed WALs, and what stands in the way. The size of a WAL that is being written is not known."""
    known, unsure = sum(group.bytes_left for group in plan.groups), sum(group.unsure for group in plan.groups)
    amount = f"{known:,} bytes"
    if unsure:
        amount = f"{f'at least {amount}' if known else 'not known'} (WALs of unknown size: {unsure}, see below)"
    lines = [f"  left to ship of closed WALs: {amount}"]
    growing = [wal for group in plan.groups for wal in group.wals if wal.growing]
    lines += [f"  WAL {wal.name}: its dead server has not closed it, and HDFS has yet to recover its lease" for wal in growing]
    return [*lines, *(f"  WAL group {group.group}: {group.problem}" for group in plan.groups if group.problem)]

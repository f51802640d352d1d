"""Peers and their queues, for `walferry peers list` and `peers show`: as data, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from walferry.admin.changing import settings_of, shown_value
from walferry.admin.peers import PeerAdmin, finish_command
from walferry.base.texts import shell_word
from walferry.hbase.errors import MasterSilent, PeerError, StalePeer
from walferry.hbase.files.errors import StoreError
from walferry.replication.peers.reading import DISABLED, Peer, refusal
from walferry.replication.peers.settings import MARKS, SHIPPING
from walferry.replication.queues.queue import Queue
from walferry.replication.queues.reading import read_queues
from walferry.replication.source.agreement import check_agreement
from walferry.replication.source.peers import read_peer, read_peers
from walferry.shipping.plan import PeerPlan, plan_peer


@dataclass(frozen=True)
class PeerLine:
    """A line about one of all peers."""

    id: str
    state: str
    managed: bool
    paused: bool
    queues: int
    wals: int
    peer_cluster: str  # its cluster key


@dataclass(frozen=True)
class Overview:
    """All peers that could be read, problems with the others, and the problem with the source's folder of WALs."""

    peers: Sequence[PeerLine]
    unreadable: Sequence[str]
    store_problem: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the data that `peers list --json` prints."""
        problems = [*self.unreadable, *([self.store_problem] if self.store_problem else [])]
        return {"peers": [asdict(peer) for peer in self.peers], "problems": problems}


@dataclass(frozen=True)
class Described:
    """One peer with its queues. Without a plan its backlog is not known."""

    peer: Peer
    queues: Sequence[Queue]
    plan: PeerPlan | None
    stale: str | None  # why ZooKeeper's copy of the peer cannot be trusted
    store_problem: str | None

    @property
    def stuck(self) -> str | None:
        """A text on the WAL groups that cannot be shipped as they are."""
        count = sum(bool(group.problem) for group in self.plan.groups) if self.plan else 0
        return f"peer {self.peer.id}: {count} of its WAL groups cannot be shipped as they are: see above" if count else None

    def lines(self) -> list[str]:
        """Return the peer in words."""
        lines = [*_configuration(self.peer)]
        if self.stale:
            lines.append(f"  cannot be shipped by Walferry: {self.stale}")
        lines += _queues(self.queues)
        return [*lines, *(_left(self.plan) if self.plan else ["  left to ship of closed WALs: not known"])]

    def to_json(self) -> dict[str, Any]:
        """Return the data that `peers show --json` prints."""
        peer, plan = self.peer, self.plan
        return {
            "id": peer.id,
            "state": peer.state,
            "managed": peer.managed,
            "paused": peer.paused,
            "handed_back_to": peer.handed_back_to,
            "succeeds": peer.succeeds,
            "peer_cluster": peer.target,
            "edits_of": scope(peer),
            "settings": settings_of(peer),
            "configuration": dict(sorted(peer.config.items())),
            "queues": [
                {"id": str(queue.id), "server": queue.server, "live": queue.live, "wals": len(queue.wals),
                 "problems": list(queue.problems)}
                for queue in self.queues
            ],
            "left_bytes": None if plan is None else sum(group.bytes_left for group in plan.groups),
            "wals_of_unknown_size": None if plan is None else sum(group.unsure for group in plan.groups),
            "problems": [problem for problem in (refusal(peer), self.stale, self.store_problem) if problem]
            + [f"WAL group {group.group}: {group.problem}" for group in (plan.groups if plan else ()) if group.problem],
        }  # fmt: skip


def overview(peers: PeerAdmin) -> Overview:
    """Return all peers. Raises WalferryError."""
    listing = read_peers(peers.session)
    rows = []
    for peer in listing.peers:
        queues = read_queues(peers.session, peer.id)
        wals = sum(len(queue.wals) for queue in queues)
        rows.append(PeerLine(peer.id, peer.state, peer.managed, peer.paused, len(queues), wals, peer.target))
    problem = None
    try:
        peers.session.store.check_root()
    except StoreError as error:
        problem = str(error)
    return Overview(rows, [str(problem) for problem in listing.problems], problem)


def describe(peers: PeerAdmin, peer_id: str) -> Described:
    """Return one peer with its queues and its backlog. Raises WalferryError."""
    peer = read_peer(peers.session, peer_id)
    queues = read_queues(peers.session, peer_id)
    stale = None
    try:
        check_agreement(peers.session, peer_id)
    except (StalePeer, MasterSilent) as error:
        stale = str(error)
    try:
        looking = replace(peers.session, look_only=True)
        looking.store.check_root()
        plan = plan_peer(looking, peer_id)
    except StoreError as error:
        return Described(peer, queues, None, stale, str(error))
    return Described(peer, queues, plan, stale, None)


def _configuration(peer: Peer) -> list[str]:
    lines = [f"peer {peer.id} is {peer.state}, {'' if peer.managed else 'not '}managed by Walferry, to {peer.target}"]
    if peer.handed_back_to:
        lines.append(f"  is being handed back to {peer.handed_back_to}")
    if peer.succeeds and peer.state == DISABLED and not peer.managed:
        lines.append(f"  is to succeed {peer.succeeds}: {finish_command(peer.succeeds, peer.id)} enables it")
    lines.append(f"  edits of {scope(peer)}")
    if peer.bandwidth:
        lines.append(f"  at most {peer.bandwidth:,} bytes a second")
    units = {each.key: each.unit for each in (*SHIPPING, *MARKS)}
    lines += [f"  {key} = {shown_value(value)} {units.get(key, '')}".rstrip() for key, value in sorted(peer.config.items())]
    lines += typed_columns(peer)
    if peer.managed and peer.paused:
        lines.append(f"  is paused: new edits stay queued until `walferry peers resume {shell_word(peer.id)}`")
    if why := refusal(peer):
        lines.append(f"  cannot be shipped by Walferry: {why}")
    return lines


def typed_columns(peer: Peer) -> list[str]:
    """Return a line for each table of a lake that has typed columns, or one that says that the mapping makes no sense."""
    try:
        found = peer.lake_columns
    except PeerError as error:
        return [f"  typed columns: {error}"]
    return [f"  typed columns of {table}: {shown_value(', '.join(each.sources))}" for table, each in found.items()]


def scope(peer: Peer) -> str:
    """Return in words which edits the peer gets."""
    if peer.replicate_all:
        but = [*sorted(peer.exclude_namespaces), *_tables(peer.exclude_table_cfs)]
        return "all user tables" + (f" but {', '.join(but)}" if but else "")
    return ", ".join([*sorted(peer.namespaces), *_tables(peer.table_cfs)]) or "no table"


def _tables(table_cfs: Mapping[str, tuple[str, ...]] | None) -> list[str]:
    return [f"{name}={','.join(families)}" if families else name for name, families in sorted((table_cfs or {}).items())]


def _queues(queues: Sequence[Queue]) -> list[str]:
    lines = [
        f"  queue {queue.id} at {queue.server} ({'live' if queue.live else 'dead or claimed'}): {len(queue.wals)} WALs"
        for queue in queues
    ]
    return [*(lines or ["  no queues"]), *(f"  {problem}" for queue in queues for problem in queue.problems)]


def _left(plan: PeerPlan) -> list[str]:
    """Return the bytes to ship of closed WALs, and what stands in the way. An open WAL's size is not known."""
    known, unsure = sum(group.bytes_left for group in plan.groups), sum(group.unsure for group in plan.groups)
    amount = f"{known:,} bytes"
    if unsure:
        amount = f"{f'at least {amount}' if known else 'not known'} (WALs of unknown size: {unsure}, see below)"
    lines = [f"  left to ship of closed WALs: {amount}"]
    growing = [wal for group in plan.groups for wal in group.wals if wal.growing]
    lines += [f"  WAL {wal.name}: its dead server has not closed it, and HDFS has yet to recover its lease" for wal in growing]
    return [*lines, *(f"  WAL group {group.group}: {group.problem}" for group in plan.groups if group.problem)]

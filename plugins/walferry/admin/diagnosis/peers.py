"""Whether a peer can be shipped, and whether its edits find their place at the slave."""

from __future__ import annotations

from dataclasses import replace

from walferry.admin.changing import settings_of
from walferry.admin.diagnosis.findings import Finding, looked, note, well, wrong
from walferry.admin.peers import PeerAdmin, finish_command
from walferry.admin.slave_checks import Wanted, problems_at_ends
from walferry.base.errors import WalferryError
from walferry.base.texts import shell_word
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.errors import PeerError
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.reading import DISABLED, ENABLED, Peer, read_peer
from walferry.replication.sinks.of_peer import why_down
from walferry.replication.source.agreement import check_peer
from walferry.shipping.plan import plan_peer

MAX_TOLD = 5


def check_one(admin: PeerAdmin, peer_id: str) -> list[Finding]:
    """Look at a managed peer. Raises MissingPeer, ZNodeValueError, ConnectError."""
    peer = read_peer(admin.session.zk, admin.session.nodes, peer_id)
    name = f"peer {peer_id}"
    findings = [looked(f"{name}: configuration", lambda: _configuration(admin, peer_id))]
    if peer.paused:
        advice = f"What is written fills the disk until `walferry peers resume {shell_word(peer_id)}`"
        findings.append(note(f"{name}: shipping", "it is paused", advice))
    try:
        down = why_down(peer, admin.session.source)
    except PeerError as error:
        return [*findings, wrong(f"{name}: slave", error)]
    if down is not None:
        return [*findings, wrong(f"{name}: slave", down, "What is written stays queued; see to the slave, or to the cluster key")]
    findings.append(well(f"{name}: slave", f"{peer.cluster_key} answers"))
    return [*findings, *_tables(admin, peer), *_queues(admin, peer_id)]


def shipped_by_others(peer: Peer) -> Finding:
    """What to tell of a peer that is not managed."""
    name = f"peer {peer.id}"
    if peer.state == ENABLED:
        return well(name, "it is not managed: HBase ships it")
    if peer.succeeds is not None and peer.state == DISABLED:
        advice = f"It fills the disk until {finish_command(peer.succeeds, peer.id)}"
        return note(name, f"it is to succeed peer {peer.succeeds}, and collects what is written", advice)
    advice = "What is written for it fills the disk: take it over, enable it or remove it"
    return note(name, f"it is {peer.state} and not managed: nobody ships it", advice)


def _configuration(admin: PeerAdmin, peer_id: str) -> str:
    peer = check_peer(admin.session, peer_id, even_paused=True)
    settings = ", ".join(f"{key} = {value}" for key, value in settings_of(peer).items())
    return f"{peer.state}, managed, as the Master knows it; {settings or 'no settings of its own'}"


def _tables(admin: PeerAdmin, peer: Peer) -> list[Finding]:
    """Whether what the peer gets has a place at the slave."""
    what = f"peer {peer.id}: tables"
    if not (peer.replicate_all or peer.namespaces or peer.table_cfs):
        return [note(what, "it gets no table", f"`peers set-table-cfs {shell_word(peer.id)} …` chooses tables")]
    tables = {} if peer.replicate_all else peer.table_cfs or {}
    namespaces = () if peer.replicate_all else sorted(peer.namespaces)
    wanted = Wanted(peer.id, peer.cluster_key, namespaces, tables, peer.slave_conn_id)
    choice = PeerTables.of_peer(peer)
    try:
        problems = problems_at_ends(admin, wanted, lambda table, family: choice.wants(table.encode(), from_binary_text(family)))
    except WalferryError as error:
        return [wrong(what, error)]
    advice = "Create or alter it, or let the peer leave it out: the queue stops at its first edit"
    return [wrong(what, problem, advice) for problem in problems] or [well(what, "all that it gets has its place at the slave")]


def _queues(admin: PeerAdmin, peer_id: str) -> list[Finding]:
    """What is left to ship, and what stands in the way."""
    what = f"peer {peer_id}: queues"
    try:
        plan = plan_peer(replace(admin.session, look_only=True), peer_id)
    except WalferryError as error:
        return [wrong(what, error)]
    stuck = [wrong(what, f"WAL group {group.group}: {group.problem}") for group in plan.groups if group.problem]
    left = sum(group.bytes_left for group in plan.groups)
    wals = sum(len(group.wals) for group in plan.groups)
    more = [wrong(what, f"{len(stuck) - MAX_TOLD:,} more WAL groups are stuck")] if len(stuck) > MAX_TOLD else []
    return [*stuck[:MAX_TOLD], *more] or [well(what, f"{wals:,} closed WALs to ship, {left:,} bytes")]

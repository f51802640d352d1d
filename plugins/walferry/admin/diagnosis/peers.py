"""Checks whether a peer can be shipped, its peer cluster takes shipments, and its edits find their place there."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace

from kazoo.exceptions import KazooException

from walferry.admin.changing import settings_of, shown_value
from walferry.admin.diagnosis import servers
from walferry.admin.diagnosis.logins import login_findings
from walferry.admin.peer_cluster_checks import Wanted, problems_at_ends
from walferry.admin.peers import PeerAdmin, finish_command
from walferry.base.errors import WalferryError
from walferry.base.findings import Finding, checked, found_by, note, well, wrong
from walferry.base.texts import shell_word
from walferry.base.zk.client import connected
from walferry.base.zk.errors import known
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.cluster import cluster_id, live_servers
from walferry.hbase.layout import ZNodes
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.reading import DISABLED, ENABLED, Peer, peer_cluster_of
from walferry.replication.peers.settings import PeerSettings, SinkHooks, SinkKind
from walferry.replication.sinks.of_peer import hooks_of_peer, target_answers
from walferry.replication.source.agreement import check_peer
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer, read_peers
from walferry.replication.source.session import Session
from walferry.shipping.plan import plan_peer

PEER_CLUSTER_SECONDS = 10.0
MAX_REPORTED = 5


def check_managed(admin: PeerAdmin, peer_id: str) -> Iterator[Finding]:
    """Check a managed peer and its cluster. Check its tables and queues, too, if the peer cluster can be shipped to.

    Raises MissingPeer, ZNodeValueError, ConnectError.
    """
    peer = read_peer(admin.session, peer_id)
    about = f"peer {peer_id}"
    yield checked("configuration", lambda: _configuration(admin.session, peer_id), about)
    if peer.paused:
        advice = f"New edits fill the disk until `walferry peers resume {shell_word(peer_id)}`"
        yield note("shipping", "it is paused", advice, about)
    if not peer.in_hbase:
        yield checked("target", lambda: _target(peer, admin.session.source), about)
        yield from found_by("queues", lambda: _queues(admin.session, peer_id, about), about)
        return
    if (yield from peer_cluster_access(admin.session.source, peer)):
        yield from found_by("hfiles.with", lambda: _lead(admin.session, peer, about), about)
        yield from found_by("tables", lambda: _tables(admin, peer, about), about)
        yield from found_by("queues", lambda: _queues(admin.session, peer_id, about), about)


def _target(peer: Peer, source: SourceCluster) -> str:
    """Return that the catalog of a lake, or Kafka, answers. Raises LakeError, KafkaError."""
    if peer.kafka:
        return target_answers(peer, source)
    from walferry.shipping.lake.catalog import open_catalog

    open_catalog(peer.lake or "").list_namespaces()
    return f"{peer.target} answers"


def shipped_by_others(peer: Peer) -> Finding:
    """Return the finding on a peer that is not managed."""
    about = f"peer {peer.id}"
    if peer.state == ENABLED:
        return well("shipping", "it is not managed: HBase ships it", about)
    if peer.succeeds is not None and peer.state == DISABLED:
        advice = f"It fills the disk until {finish_command(peer.succeeds, peer.id)}"
        return note("shipping", f"it is to succeed peer {peer.succeeds}, and collects new edits", advice, about)
    advice = "Its queued edits fill the disk: take it over, enable it or remove it"
    return note("shipping", f"it is {peer.state} and not managed: nobody ships it", advice, about)


def peer_cluster_access(source: SourceCluster, peer: Peer) -> Generator[Finding, None, bool]:
    """Check that the connection to a peer's cluster leads to it, and lets us write there. Return whether a RegionServer
    answers."""
    about = f"cluster of peer {peer.id}"
    conn_id = source.conn_id_of(peer.cluster_key, peer.peer_conn_id)
    try:
        login = source.login_to(peer)
    except WalferryError as error:
        yield wrong("connection", error, about=about)
        return False
    if conn_id is not None:
        yield well("connection", f"{conn_id}, for {peer.cluster_key}", about)
    yield from login_findings(about, login)
    try:
        key = peer.peer_cluster
        with connected(key.connect_string, PEER_CLUSTER_SECONDS, peer_cluster_of(peer.id, key), login) as zk:
            nodes = ZNodes(key.znode_parent)
            cluster, live = cluster_id(zk, nodes), sorted(live_servers(zk, nodes))
    except (WalferryError, KazooException) as error:
        advice = "New edits stay queued; see to the peer cluster, or to the cluster key"
        yield wrong("ZooKeeper", known(error), advice, about)
        return False
    yield well("ZooKeeper", f"cluster {cluster} at {key}", about)
    if not live:
        yield wrong("RegionServers", "none is live", about=about)
        return False
    answers = servers.ask(live, login)
    yield from servers.silent(answers, "See to it, and to the network from here: it can take no shipments", about)
    able = [server for server, answer in answers.items() if servers.is_answer(answer)]
    if able:
        yield well("RegionServers", servers.answering(answers), about)
        yield servers.may_write(able[0], login, about)
        yield from found_by("sink", lambda: [_sink(source, peer, about)], about)
    return bool(able)


def _sink(source: SourceCluster, peer: Peer, about: str) -> Finding:
    """Report whether classes at the peer cluster see only replicated edits, and whether the peer's edits pass them by."""
    settings = PeerSettings.of(source.replication, peer)
    if settings.sink is SinkKind.REPLICATE or settings.sink_hooks is SinkHooks.NONE:
        return well("sink", str(settings.sink), about)
    hooks = hooks_of_peer(peer, source)
    present = str(hooks) or ("what sink_hooks says" if settings.sink_hooks is SinkHooks.PRESENT else "")
    if not present:
        unknown = f"; whether the peer cluster has classes for replicated edits is not known: {hooks.unknown}"
        return well("sink", str(settings.sink) + (unknown if hooks.unknown else ""), about)
    if settings.sink is SinkKind.AUTO:
        return well("sink", f"auto, so all edits go by replicate: the peer cluster has {present}", about)
    advice = f"`walferry peers set {shell_word(peer.id)} sink=auto` heeds that; sink_hooks=none says that it does not matter"
    return note("sink", f"edits go by {settings.sink}, and pass by classes for replicated edits: {present}", advice, about)


def _lead(session: Session, peer: Peer, about: str) -> list[Finding]:
    """Report a peer whose batches should make this one's files and cannot. Raises WalferryError."""
    if peer.hfiles_with is None:
        return []
    others = {each.id: each for each in read_peers(session).peers if each.managed}
    lead = others.get(peer.hfiles_with)
    if lead is not None and not lead.hfiles_with:
        return []
    why = f"makes its own with those of {lead.hfiles_with}" if lead else "is no managed peer"
    problem = f"its files are to be made with those of peer {peer.hfiles_with}, which {why}: it is shipped alone"
    return [note("hfiles.with", problem, f"`walferry peers set {shell_word(peer.id)} hfiles.with=` says so", about)]


def _configuration(session: Session, peer_id: str) -> str:
    peer = check_peer(session, peer_id, even_paused=True)
    settings = ", ".join(f"{key} = {shown_value(value)}" for key, value in settings_of(peer).items())
    return f"{peer.state}, managed, as the Master knows it; {settings or 'no settings of its own'}"


def _tables(admin: PeerAdmin, peer: Peer, about: str) -> list[Finding]:
    """Check whether the peer's tables and families exist at the peer cluster. Raises WalferryError."""
    if not (peer.replicate_all or peer.namespaces or peer.table_cfs):
        return [note("tables", "it gets no table", f"`peers set-table-cfs {shell_word(peer.id)} …` chooses tables", about)]
    tables = {} if peer.replicate_all else peer.table_cfs or {}
    namespaces = () if peer.replicate_all else sorted(peer.namespaces)
    wanted = Wanted(peer.id, peer.cluster_key, namespaces, tables, peer.peer_conn_id)
    choice = PeerTables.of_peer(peer)
    problems = problems_at_ends(admin, wanted, lambda table, family: choice.wants(table.encode(), from_binary_text(family)))
    advice = "Create or alter it, or let the peer leave it out: the queue stops at its first edit"
    found = [wrong("tables", problem, advice, about) for problem in problems]
    return found or [well("tables", "all that it gets has its place at the peer cluster", about)]


def _queues(session: Session, peer_id: str, about: str) -> list[Finding]:
    """Report the peer's backlog, and what stands in its way. Raises WalferryError."""
    plan = plan_peer(replace(session, look_only=True), peer_id)
    stuck = [f"WAL group {group.group}: {group.problem}" for group in plan.groups if group.problem]
    more = [f"{len(stuck) - MAX_REPORTED:,} more WAL groups are stuck"] if len(stuck) > MAX_REPORTED else []
    left = sum(group.bytes_left for group in plan.groups)
    wals = sum(len(group.wals) for group in plan.groups)
    found = [wrong("queues", problem, about=about) for problem in [*stuck[:MAX_REPORTED], *more]]
    return found or [well("queues", f"{wals:,} closed WALs to ship, {left:,} bytes", about)]

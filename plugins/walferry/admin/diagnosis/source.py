"""Checks everything that Walferry needs of a source, from the files of a login to the queues of each peer.

login       files, a ticket from the KDC
source      ZooKeeper and its ACLs, Walferry's own root, RegionServers, the Master, ADMIN, WAL folders, servers with many WALs,
            dead servers' queues
peers       configuration; the peer cluster's login, ZooKeeper, RegionServers, WRITE; tables, queues
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kazoo.exceptions import KazooException, NoAuthError

from walferry.admin.diagnosis.logins import login_findings
from walferry.admin.diagnosis.peers import check_managed, shipped_by_others
from walferry.admin.diagnosis.servers import answering, ask, grant, is_answer, silent
from walferry.admin.diagnosis.upgrade import KIND as UPGRADE
from walferry.admin.diagnosis.upgrade import upgrade_findings
from walferry.admin.peers import PeerAdmin
from walferry.base.errors import WalferryError
from walferry.base.findings import Finding, Severity, checked, found_by, note, once, well, wrong
from walferry.base.texts import shell_word
from walferry.base.zk.acls import share
from walferry.base.zk.client import CONNECT_TIMEOUT_SECONDS, children, connected, just_written, read
from walferry.base.zk.errors import ForeignRoot, NoAccess, known
from walferry.hbase.cluster import check_layout, cluster_id, live_servers
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import MasterSilent, NoPeerYet, StorageError
from walferry.hbase.files.access import missing_rights, needs_of
from walferry.hbase.files.errors import NoFileRight
from walferry.hbase.names import ServerName, is_server_name
from walferry.hbase.queue_table import QUEUE_TABLE
from walferry.hbase.rpc.errors import AccessDenied
from walferry.hbase.values import decode_server_version
from walferry.replication.peers.reading import Peer
from walferry.replication.queues.dead_servers import find_dead, recovered_queues
from walferry.replication.queues.reading import list_queues
from walferry.replication.retention.unflushed import KIND as UNFLUSHED
from walferry.replication.retention.unflushed import near_limit
from walferry.replication.source.agreement import disagreements, master_peers
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import check_storage, peer_ids, read_peers
from walferry.replication.source.session import Session, owners_of

ASKED_AT_ONCE = 16
MAX_REPORTED = 10  # of each kind
SERVED = ("1.", "2.", "3.")
TESTED = ("1.7.2", "2.4.18", "2.5.13", "2.6.1", "2.6.4")  # by tests/cluster/releases and others


def check(
    source: SourceCluster, peer_ids: Sequence[str] = (), connect_seconds: float = CONNECT_TIMEOUT_SECONDS, *,
    upgrade: bool = False,
) -> Iterator[Finding]:  # fmt: skip
    """Check a source, and these peers and their clusters; without `peer_ids`, all peers and what dead servers have left.

    With `upgrade`, also check what the next step of an upgrade to HBase 3 needs. It yields the findings one after the other, and
    reports each cause once.
    """
    return once(_check(source, peer_ids, connect_seconds, upgrade))


def _check(source: SourceCluster, peer_ids: Sequence[str], connect_seconds: float, upgrade: bool) -> Iterator[Finding]:
    yield from login_findings("source", source.login)
    try:
        with connected(source.quorum, connect_seconds, login=source.login) as zk:
            yield well("ZooKeeper", f"{source.quorum} answers")
            session = Session(source, zk, look_only=True)
            refused = _refused(session)
            if refused is not None:
                yield wrong("own root" if isinstance(refused, ForeignRoot) else "ZooKeeper's ACLs", refused)
            cluster = checked("cluster", lambda: f"id {cluster_id(zk, session.nodes)} under {session.nodes.base}")
            yield cluster
            if cluster.severity is Severity.WELL:  # otherwise the source cannot be checked any further
                if refused is None:
                    yield _own_root(session)
                yield from found_by("RegionServers", lambda: _servers(session))
                of_master: dict[str, Peer] = {}
                yield from found_by("Master", lambda: _master(session, of_master))
                yield checked("WAL folders", lambda: _folders(session))
                yield from found_by(UNFLUSHED, lambda: _unflushed(session))
                if upgrade:
                    yield from found_by(UPGRADE, lambda: upgrade_findings(session))
                yield from _replication(session, peer_ids, of_master)
    except (WalferryError, KazooException) as error:
        yield wrong("ZooKeeper", known(error))


def _refused(session: Session) -> NoAccess | ForeignRoot | None:
    """Return why znodes with the owners of HBase's own znodes cannot be created below our root; None if they can."""
    try:
        share(session.zk, owners_of(session), session.own.root)
    except (NoAccess, ForeignRoot) as error:
        return error
    return None


def _own_root(session: Session) -> Finding:
    root = session.source.root
    try:
        just_written(session.zk, f"{root}/clock")
    except (WalferryError, KazooException) as error:
        advice = "Leases and claims lie there: see to its ACL, or set walferry_root in the connection's extra"
        return wrong("own root", f"{root} cannot be written: {known(error)}", advice)
    if session.zk.default_acl is None:
        return note(
            "own root", f"{root} can be written, by everyone who reaches ZooKeeper, as HBase's queues can",
            "Whoever writes there can have edits taken for shipped: keep others away from ZooKeeper, or give it and HBase logins "
            "(docs/security.md)",
        )  # fmt: skip
    return well("own root", f"{root} can be written, and belongs to those that HBase's queues do")


def _servers(session: Session) -> Iterator[Finding]:
    """Check the live RegionServers: their release, and whether they answer. Report other children of their znode."""
    names = children(session.zk, session.nodes.rs) or []
    if odd := [name for name in names if not is_server_name(name)]:
        shown = ", ".join(repr(name) for name in odd[:MAX_REPORTED]) + (", …" if len(odd) > MAX_REPORTED else "")
        advice = "Runs end there: find out what has written them, and delete them"
        yield wrong("RegionServers", f"{session.nodes.rs} has children that are not server names: {shown}", advice)
    servers = sorted(ServerName.parse(name) for name in names if is_server_name(name))
    if not servers:
        yield wrong("RegionServers", "none is live", "Closed WALs can still be shipped, but nothing can be rolled")
        return
    answers = ask(servers, session.source.login)
    yield from silent(answers, "See to it, and to the network from here: its WALs cannot be rolled")
    if any(map(is_answer, answers.values())):
        yield _release(session, servers, answering(answers))


def _release(session: Session, servers: Sequence[ServerName], answers: str) -> Finding:
    versions = set()
    for server in servers:
        path = f"{session.nodes.rs}/{server}"
        try:
            znode = read(session.zk, path)
            versions.add((decode_server_version(znode.value, path) if znode else None) or "unknown")
        except (WalferryError, NoAuthError):  # HBase keeps these znodes to itself: a finding below says whether we get at them
            versions.add("unknown")
    text = f"{answers}; HBase {', '.join(sorted(versions))}"
    odd = [version for version in versions if version != "unknown" and not version.startswith(SERVED)]
    if odd:
        return wrong("RegionServers", text, "Walferry serves HBase 1, 2 and 3")
    if new := [version for version in versions if version != "unknown" and version.partition("-")[0] not in TESTED]:
        tested = ", ".join(TESTED)
        return note("RegionServers", f"{text}; {', '.join(sorted(new))} is not among the tested releases", f"Tested are {tested}")
    return well("RegionServers", text)


def _master(session: Session, of_master: dict[str, Peer]) -> Iterator[Finding]:
    """Check the Master, and whether we have ADMIN: without it the Master does not return its peers. They go into `of_master`."""
    try:
        peers = master_peers(session)
    except MasterSilent as error:
        denied = isinstance(error.__cause__, AccessDenied)
        yield wrong("Master", error, grant(session.source.login, "A", "the source") if denied else "")
        return
    of_master |= peers or {}
    at = active_master(session.zk, session.nodes)
    known_peers = "" if peers is None else f" and knows {len(peers):,} {'peer' if len(peers) == 1 else 'peers'}"
    yield well("Master", f"{at} is active{known_peers}")


def _folders(session: Session) -> str:
    session.store.check_root()
    source = session.source
    folders = needs_of(
        source.wal_root, archive=source.archive, quarantine=source.quarantine, peers_root=source.peers_root
    )  # fmt: skip
    if problem := missing_rights(folders):
        raise NoFileRight(problem)
    return f"{session.source.wal_root} can be read"


def _unflushed(session: Session) -> list[Finding]:
    try:
        servers = live_servers(session.zk, session.nodes)
    except WalferryError:  # the check of the RegionServers says why
        return []
    return near_limit(session, servers)


def _replication(session: Session, peer_ids: Sequence[str], of_master: Mapping[str, Peer]) -> Iterator[Finding]:
    """Check what the cluster keeps of replication, these peers or all, and dead servers' queues."""
    try:
        yield well("replication", _storage(session))
    except NoPeerYet as error:
        if of_master:
            yield wrong(
                "replication", f"{session.nodes.queues} is not there, but the Master knows {len(of_master):,} peers",
                "Walferry reads queues only there: see whether HBase has another zookeeper.znode.replication",
            )  # fmt: skip
        elif peer_ids:
            yield wrong("replication", error)
        else:
            yield note("replication", str(error))
        return
    except Exception as error:
        yield wrong("replication", known(error))
    yield from found_by("peers", lambda: _peers(session, peer_ids, of_master))
    if not peer_ids:
        yield from found_by("dead servers", lambda: _dead_servers(session))


def _storage(session: Session) -> str:
    check_storage(session)
    if session.nodes.in_table:
        return f"{len(list_queues(session)):,} queues are in table {QUEUE_TABLE}"
    for server in children(session.zk, session.nodes.queues) or ():
        check_layout(session.zk, session.nodes, server, children(session.zk, session.nodes.server_queues(server)) or ())
    root, peers = session.source.peers_root, ""
    if root is not None:
        if peer_ids(session) is None:
            raise StorageError(f"there is no {root}: check peers_root, unless the cluster has never had a peer")
        peers = f"; peers are in files below {root}"
    return f"queues are in ZooKeeper, with the layout {session.nodes.layout}{peers}"


def _dead_servers(session: Session) -> list[Finding]:
    """Check the queues that get no new WALs: queues of managed peers, and queues of peers that are gone."""
    dead = find_dead(session)
    peers = set(peer_ids(session) or ())
    orphans = [queue for queue in recovered_queues(session) if queue.peer_id not in peers]
    findings = [
        note("dead servers", f"{server.name} has left {sum(len(queue.wals) for queue in server.queues):,} WALs of managed peers",
             f"Batches and `walferry failover {shell_word(server.name)}` ship them")
        for server in dead[:MAX_REPORTED]
    ]  # fmt: skip
    findings += [
        wrong("orphaned queues", f"{queue.ref} has {len(queue.wals):,} WALs, and its peer {queue.peer_id} is gone",
              f"HBase never cleans them: `walferry drain {shell_word(queue.ref)} --delete-orphan` deletes the queue, unshipped")
        for queue in orphans[:MAX_REPORTED]
    ]  # fmt: skip
    if len(orphans) > MAX_REPORTED:
        findings.append(wrong("orphaned queues", f"{len(orphans) - MAX_REPORTED:,} more"))
    return findings or [well("dead servers", "none has left a queue of a managed peer, and no queue is without its peer")]


def _peers(session: Session, peer_ids: Sequence[str], of_master: Mapping[str, Peer]) -> Iterator[Finding]:
    """Check these peers as managed ones, or all peers. `of_master` are those that the Master knows, as far as it was asked."""
    peers: dict[str, Peer | None] = dict.fromkeys(peer_ids)
    if not peer_ids:
        listing = read_peers(session)
        peers = {peer.id: peer for peer in listing.peers}
        yield from (wrong("peers", problem) for problem in listing.problems)
        unseen = set(of_master) - set(peers)
        yield from (wrong("peers", problem) for problem in disagreements(session, unseen, of_master).values())
        if not peers and not unseen:
            yield note("peers", "there is none", "`walferry peers create` adds one")

    def findings_of(peer_id: str, peer: Peer | None) -> list[Finding]:
        if peer is not None and not peer.managed:
            return [shipped_by_others(peer)]
        return list(found_by("configuration", lambda: check_managed(PeerAdmin(session), peer_id), f"peer {peer_id}"))

    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:  # a peer cluster that is down takes some seconds
        for findings in pool.map(findings_of, peers, peers.values()):
            yield from findings

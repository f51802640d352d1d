"""Looks through everything that Walferry needs of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kazoo.exceptions import KazooException, NoAuthError

from walferry.admin.diagnosis.findings import Finding, looked, note, well, wrong
from walferry.admin.diagnosis.peers import check_one, shipped_by_others
from walferry.admin.diagnosis.servers import answering, ask, grant_admin, is_answer, silent
from walferry.admin.peers import PeerAdmin
from walferry.base.errors import WalferryError
from walferry.base.texts import shell_word
from walferry.base.zk.client import children, just_written, read
from walferry.base.zk.errors import known
from walferry.hbase.cluster import check_layout, check_storage, cluster_id
from walferry.hbase.cluster import master as active_master
from walferry.hbase.errors import MasterSilent, MissingPeer
from walferry.hbase.files.access import missing_rights, needs_of
from walferry.hbase.files.errors import NoFileRight
from walferry.hbase.names import ServerName, is_server_name
from walferry.hbase.rpc.errors import AccessDenied
from walferry.hbase.values import decode_server_version
from walferry.replication.peers.reading import Peer, read_peers
from walferry.replication.queues.dead_servers import find_dead, recovered_queues
from walferry.replication.source.agreement import master_peers
from walferry.replication.source.session import Session

ASKED_AT_ONCE = 16
MAX_TOLD = 10  # of each kind
SERVED = ("1.", "2.")


def diagnose(session: Session) -> Iterator[Finding]:
    """Look at everything of a source whose ZooKeeper answers; findings come one after the other. Raises ConnectError."""
    storage = None
    for storage in access(session):
        yield storage
    if storage is not None and storage.what == "replication" and _is_well(storage):
        yield from told("dead servers", lambda: _dead_servers(session))
        yield from told("peers", lambda: _peers(session))


def access(session: Session, *, writes: bool = True) -> Iterator[Finding]:
    """Whether Walferry gets at everything of a source; the last finding is of its replication znodes. Raises ConnectError.

    Without `writes` nothing is written to Walferry's own root.
    """
    yield well("ZooKeeper", f"{session.source.quorum} answers")
    cluster = looked("cluster", lambda: f"id {cluster_id(session.zk, session.nodes)} under {session.nodes.base}")
    yield cluster
    if not _is_well(cluster):  # there is nothing else to look at
        return
    if writes:
        yield _own_root(session)
    yield from told("RegionServers", lambda: _servers(session))
    yield from told("Master", lambda: _master(session))
    yield looked("WAL folders", lambda: _folders(session))
    yield looked("replication", lambda: _storage(session))


def told(what: str, look: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    """What `look` finds, and at last the error that it raises, ZooKeeper's too. Raises MissingPeer."""
    try:
        yield from look()
    except MissingPeer:
        raise
    except (WalferryError, KazooException) as error:
        yield wrong(what, known(error))


def _is_well(finding: Finding) -> bool:
    return finding.state == "well"


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


def _servers(session: Session) -> list[Finding]:
    """The RegionServers that are live: their release, and whether they answer. Other children of their znode are told."""
    names = children(session.zk, session.nodes.rs) or []
    servers = sorted(ServerName.parse(name) for name in names if is_server_name(name))
    return [*_not_servers(session, names), *_live(session, servers)]


def _not_servers(session: Session, names: Sequence[str]) -> list[Finding]:
    odd = [name for name in names if not is_server_name(name)]
    if not odd:
        return []
    shown = ", ".join(repr(name) for name in odd[:MAX_TOLD]) + (", …" if len(odd) > MAX_TOLD else "")
    advice = "Runs end there: find out what has written them, and delete them"
    return [wrong("RegionServers", f"{session.nodes.rs} has children that are not server names: {shown}", advice)]


def _live(session: Session, servers: Sequence[ServerName]) -> list[Finding]:
    if not servers:
        return [wrong("RegionServers", "none is live", "Closed WALs can still be shipped, but nothing can be rolled")]
    answers = ask(servers, session.source.login)
    advice = "See to it, and to the network from here: its WALs cannot be rolled"
    found = silent("RegionServers", answers, advice)
    return [*found, *_release(session, servers, answering(answers))] if any(map(is_answer, answers.values())) else found


def _release(session: Session, servers: Sequence[ServerName], told: str) -> list[Finding]:
    versions = set()
    for server in servers:
        path = f"{session.nodes.rs}/{server}"
        try:
            znode = read(session.zk, path)
            versions.add((decode_server_version(znode.value, path) if znode else None) or "unknown")
        except (WalferryError, NoAuthError):  # HBase keeps these znodes to itself: whether we get at them is told below
            versions.add("unknown")
    told = f"{told}; HBase {', '.join(sorted(versions))}"
    odd = [version for version in versions if version != "unknown" and not version.startswith(SERVED)]
    if odd:
        return [wrong("RegionServers", told, "Walferry serves HBase 1 and 2")]
    return [well("RegionServers", told)]


def _master(session: Session) -> Iterator[Finding]:
    """The Master, and whether we have ADMIN: without it the Master tells nobody its peers."""
    try:
        peers = master_peers(session)
    except MasterSilent as error:
        denied = isinstance(error.__cause__, AccessDenied)
        yield wrong("Master", error, grant_admin(session.source.login) if denied else "")
        return
    at = active_master(session.zk, session.nodes)
    known_peers = "" if peers is None else f" and knows {len(peers):,} {'peer' if len(peers) == 1 else 'peers'}"
    yield well("Master", f"{at} is active{known_peers}")


def _folders(session: Session) -> str:
    session.store.check_root()
    source = session.source
    if problem := missing_rights(needs_of(source.wal_root, archive=source.archive, quarantine=source.quarantine)):
        raise NoFileRight(problem)
    return f"{session.source.wal_root} can be read"


def _storage(session: Session) -> str:
    check_storage(session.zk, session.nodes)
    for server in children(session.zk, session.nodes.queues) or ():
        check_layout(session.zk, session.nodes, server, children(session.zk, session.nodes.server_queues(server)) or ())
    return f"queues are in ZooKeeper, with the layout {session.nodes.layout}"


def _dead_servers(session: Session) -> list[Finding]:
    """Queues that get no new WALs: of managed peers, and of peers that are gone."""
    dead = find_dead(session)
    peers = set(children(session.zk, session.nodes.peers) or ())
    orphans = [queue for queue in recovered_queues(session) if queue.peer_id not in peers]
    findings = [
        note("dead servers", f"{server.name} has left {sum(len(queue.wals) for queue in server.queues):,} WALs of managed peers",
             f"Batches and `walferry failover {shell_word(server.name)}` ship them")
        for server in dead[:MAX_TOLD]
    ]  # fmt: skip
    findings += [
        wrong("orphaned queues", f"{queue.ref} has {len(queue.wals):,} WALs, and its peer {queue.peer_id} is gone",
              f"HBase never cleans them: `walferry drain {shell_word(queue.ref)} --delete-orphan` deletes the queue, unshipped")
        for queue in orphans[:MAX_TOLD]
    ]  # fmt: skip
    if len(orphans) > MAX_TOLD:
        findings.append(wrong("orphaned queues", f"{len(orphans) - MAX_TOLD:,} more"))
    return findings or [well("dead servers", "none has left a queue of a managed peer, and no queue is without its peer")]


def _peers(session: Session) -> Iterator[Finding]:
    listing = read_peers(session.zk, session.nodes)
    for problem in listing.problems:
        yield wrong("peers", problem)
    if not listing.peers:
        yield note("peers", "there is none", "`walferry peers create` adds one")
    looks: list[Callable[[], list[Finding]]] = [
        partial(_look_at, session, peer.id) if peer.managed else partial(_others, peer) for peer in listing.peers
    ]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:  # a slave that is down takes some seconds
        for findings in pool.map(lambda look: look(), looks):
            yield from findings


def _others(peer: Peer) -> list[Finding]:
    return [shipped_by_others(peer)]


def _look_at(session: Session, peer_id: str) -> list[Finding]:
    try:
        return check_one(PeerAdmin(session), peer_id)
    except (WalferryError, KazooException) as error:
        return [wrong(f"peer {peer_id}", known(error))]

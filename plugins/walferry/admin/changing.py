"""Changes which edits a managed peer gets, and how it is shipped. A change holds from the next batch on.

A paused peer gets nothing until it is resumed, and all new edits stay queued. The mark is a key of the peer's configuration, so
it lies where the peer lies, and every run sees it: batches and drains leave the peer alone and end well. A run that is shipping
the peer stops within seconds. The peer's state stays DISABLED all the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from walferry.admin.creating import edits_of, elsewhere, put_edits
from walferry.admin.peer_cluster_checks import Wanted, check_ends, check_mapped
from walferry.admin.peers import PeerAdmin, Refused, put_keys
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import did_you_mean
from walferry.replication.peers.reading import Peer, as_peer
from walferry.replication.peers.settings import (
    BANDWIDTH,
    HFILES_WITH,
    KAFKA,
    LAKE_COLUMNS,
    MARKS,
    NAMESPACES,
    PAUSED,
    PEER_CONN_ID,
    PREFIX,
    SETTABLE,
    Setting,
    heeded,
)
from walferry.replication.source.peers import read_peer, read_peers, successor

MAX_SHOWN_CHARS = 100


def set_tables(
    admin: PeerAdmin,
    peer_id: str,
    table_cfs: Mapping[str, Sequence[str]] | None,
    namespaces: Sequence[str] | None = None,
    *,
    allow_missing: bool = False,
) -> Peer:
    """Let the peer get these tables and namespaces, or all user tables if there are none. None leaves them as they are.

    The part that stays is read from the peer as the Master has it at the change: another command may change the peer while source
    and peer cluster are asked. Raises Refused, also if the peer does not get these tables and namespaces afterwards.
    """
    before = admin.managed(peer_id)
    _refuse_if_handed_back(admin, before)
    wanted = _wanted(before, table_cfs, namespaces)
    put_edits(pb.ReplicationPeer(), wanted)  # refuses an invalid name before source and peer cluster are asked
    check_ends(admin, wanted, allow_missing=allow_missing)
    put: list[tuple[object, ...]] = []

    def edit(config: pb.ReplicationPeer) -> None:
        put_edits(config, _wanted(as_peer(peer_id, config, before.state, ""), table_cfs, namespaces))
        put.append(edits_of(as_peer(peer_id, config, before.state, "")))

    admin.change(peer_id, edit)
    after = admin.managed(peer_id)
    if edits_of(after) != put[-1]:
        raise Refused(f"peer {peer_id}: another command has changed its tables meanwhile", "Look at the peer")
    return after


def _wanted(peer: Peer, table_cfs: Mapping[str, Sequence[str]] | None, namespaces: Sequence[str] | None) -> Wanted:
    """Return what the peer is to get, given what it gets now. Raises Refused if it would get more than was asked for."""
    tables = (peer.table_cfs or {}) if table_cfs is None else table_cfs
    names = sorted(peer.namespaces) if namespaces is None else namespaces
    if table_cfs is None and not names and not tables:
        raise Refused(f"without namespaces peer {peer.id} would get all user tables", "If it should: `peers set-table-cfs --all`")
    if peer.replicate_all and namespaces and (left_out := _left_out(peer, namespaces)):
        raise Refused(
            f"peer {peer.id} leaves out {', '.join(left_out)}, which it would get with these namespaces: HBase leaves out "
            "nothing of a namespace that a peer gets",
            "Name the tables that it should get: `peers set-table-cfs`",
        )
    return Wanted(peer.id, peer.cluster_key, names, tables, peer.peer_conn_id, elsewhere(peer))


def _left_out(peer: Peer, namespaces: Sequence[str]) -> list[str]:
    """Return the parts of these namespaces that the peer does not get because its configuration excludes them."""
    tables = peer.exclude_table_cfs or {}
    return [
        *(name for name in namespaces if name in peer.exclude_namespaces),
        *(
            f"{table}={','.join(families)}" if families else table
            for table, families in sorted(tables.items())
            if (table.rpartition(":")[0] or "default") in namespaces
        ),
    ]


def set_values(admin: PeerAdmin, peer_id: str, values: Mapping[str, str], *, allow_missing: bool = False) -> Peer:
    """Set settings of the peer, each by its name with or without `walferry.`, bandwidth, peer cluster's connection or namespaces.

    An empty value stands for the default. `allow_missing` only warns of namespaces that source or peer cluster lacks, and of
    typed columns that would never be filled. Raises Refused for an unknown setting, a wrong value, or a peer that cannot make
    this one's files; SourceError for a connection that does not exist or is not the peer cluster's.
    """
    texts = {_settable(name): text.strip() for name, text in values.items()}
    try:
        meant = {setting: setting.parse(text) if text else setting.default for setting, text in texts.items()}
        texts |= {KAFKA: meant[KAFKA]} if meant.get(KAFKA) else {}  # in the form that all spellings share
    except ValueError as error:
        raise Refused(str(error)) from error
    before = admin.managed(peer_id)
    may = heeded(lake=before.lake is not None, kafka=before.kafka is not None)
    if others := sorted(setting.name for setting in texts if setting not in may):
        raise Refused(f"peer {peer_id} goes to {before.target}, so {', '.join(others)} would do nothing", "Leave that out")
    if BANDWIDTH in texts:
        _refuse_if_handed_back(admin, before)
    if conn_id := meant.get(PEER_CONN_ID):
        admin.session.source.login_at(before.cluster_key, conn_id)
    if lead := meant.get(HFILES_WITH):
        _check_lead(admin, before, lead)
    names = [name.strip() for name in texts.get(NAMESPACES, "").split(",") if name.strip()]
    if LAKE_COLUMNS in texts:
        mapped = replace(before, config={**before.config, LAKE_COLUMNS.key: texts[LAKE_COLUMNS]})
        if NAMESPACES in texts:
            mapped = replace(mapped, namespaces=frozenset(names), replicate_all=not names and not before.table_cfs)
        check_mapped(admin, mapped, allow_missing=allow_missing)
    if NAMESPACES in texts:
        set_tables(admin, peer_id, None, names, allow_missing=allow_missing)
    if texts.keys() - {NAMESPACES}:
        admin.change(peer_id, lambda config: _put(config, texts, meant.get(BANDWIDTH)))
    after = admin.managed(peer_id)
    if NAMESPACES not in texts and edits_of(after) != edits_of(before):
        raise Refused(f"peer {peer_id}: another command has changed its tables meanwhile", "Look at the peer")
    return after


def _check_lead(admin: PeerAdmin, peer: Peer, lead_id: str) -> None:
    """Raise Refused unless the files of a peer can be made with those of the peer `lead_id`."""
    others = {each.id: each for each in read_peers(admin.session).peers if each.managed and each.id != peer.id}
    lead = others.get(lead_id)
    if lead is None:
        known = f"Other managed peers: {', '.join(sorted(others)) or 'none'}"
        raise Refused(f"peer {peer.id}: there is no other managed peer {lead_id} whose batches could make its files", known)
    if not lead.in_hbase:
        raise Refused(f"peer {lead_id} goes to {lead.target}, and makes no files", "Name a peer that leads to a cluster")
    if lead.hfiles_with:
        raise Refused(f"the files of peer {lead_id} are made with those of peer {lead.hfiles_with}", "Name that peer")
    if led := sorted(each.id for each in others.values() if each.hfiles_with == peer.id):
        raise Refused(f"the files of peer {led[0]} are made with those of peer {peer.id}", f"Change peer {led[0]} first")


def _refuse_if_handed_back(admin: PeerAdmin, peer: Peer) -> None:
    """Raise Refused if HBase is to ship a peer with the same tables, namespaces and bandwidth soon: the two must not differ."""
    new = successor(admin.session, peer) if peer.handed_back_to else None
    if new is not None:
        raise Refused(
            f"peer {peer.id} is being handed back to {new.id}, which has its tables, namespaces and bandwidth",
            f"Finish that, and change {new.id} in HBase's shell; or remove {new.id} there, and begin again later",
        )


def shown_value(text: str) -> str:
    """Return a setting's value for a line of text: mappings and rules may have 64 KB."""
    line = " ".join(text.split())
    if len(line) <= MAX_SHOWN_CHARS:
        return line
    return f"{line[:MAX_SHOWN_CHARS]}… ({len(text):,} characters; `peers show --json` has all)"


def settings_of(peer: Peer) -> dict[str, str]:
    """Return the peer's own settings by the names that `set_values` takes; settings without a value are left out."""
    said = {name: setting.text(peer.config) for name, setting in SETTABLE.items() if setting.ours}
    return {name: text for name, text in said.items() if text} | ({BANDWIDTH.name: str(peer.bandwidth)} if peer.bandwidth else {})


def _settable(name: str) -> Setting:
    """Return the setting of that name, with or without `walferry.`. Raises Refused, with the name that may be meant."""
    short = name.strip().removeprefix(PREFIX)
    if short in SETTABLE:
        return SETTABLE[short]
    if short in {mark.name for mark in MARKS}:
        raise Refused(f"{name} is not a setting", "Use `peers pause`, `resume`, `take-over` or `hand-back`")
    raise Refused(f"there is no setting {name!r}{did_you_mean([short], SETTABLE)}", f"Settings: {', '.join(SETTABLE)}")


def _put(config: pb.ReplicationPeer, texts: Mapping[Setting, str], bandwidth: int | None) -> None:
    put_keys(config, {setting.key: text for setting, text in texts.items() if setting.ours})
    if bandwidth is not None:
        config.bandwidth = bandwidth


def pause(admin: PeerAdmin, peer_id: str) -> Peer:
    """Make runs leave the managed peer alone."""
    return _mark(admin, peer_id, paused=True)


def resume(admin: PeerAdmin, peer_id: str) -> Peer:
    """Make runs ship the managed peer again."""
    return _mark(admin, peer_id, paused=False)


def _mark(admin: PeerAdmin, peer_id: str, *, paused: bool) -> Peer:
    if admin.managed(peer_id).paused != paused:
        admin.put_configuration(peer_id, {PAUSED.key: "true" if paused else "false"})
    peer = read_peer(admin.session, peer_id)
    if peer.paused != paused:
        raise Refused(f"peer {peer_id}: another command has changed {PAUSED.key} meanwhile", "Look at the peer, then try again")
    return peer

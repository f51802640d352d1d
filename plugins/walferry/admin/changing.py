"""Changes what a managed peer gets, and how it is shipped. A change holds from the next batch on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from walferry.admin.creating import edits_of, put_edits
from walferry.admin.errors import Refused
from walferry.admin.peers import PeerAdmin, put_keys
from walferry.admin.slave_checks import Wanted, check_ends
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.cluster_key import SLAVE_CONN_KEY
from walferry.replication.peers import settings as peer_settings
from walferry.replication.peers.reading import MARKS, MAX_LAG_KEY, Peer, as_peer, parse_max_lag, successor

BANDWIDTH, NAMESPACES = "bandwidth", "namespaces"
MAX_LAG, SLAVE_CONN_ID = MAX_LAG_KEY.removeprefix(peer_settings.PREFIX), SLAVE_CONN_KEY.removeprefix(peer_settings.PREFIX)
MAX_BANDWIDTH = (1 << 63) - 1


def set_tables(
    admin: PeerAdmin,
    peer_id: str,
    table_cfs: Mapping[str, Sequence[str]] | None,
    namespaces: Sequence[str] | None = None,
    *,
    allow_missing: bool = False,
) -> Peer:
    """Let the peer get these tables and namespaces, or all user tables if there are none. None: as they are.

    What is to stay is taken from the peer as the Master has it when it is changed: another command may change it while the ends
    are asked. Raises Refused, also if the peer does not get that afterwards.
    """
    before = admin.managed(peer_id)
    _refuse_if_handed_back(admin, before)
    wanted = _wanted(before, table_cfs, namespaces)
    put_edits(pb.ReplicationPeer(), wanted)  # refuses what is not a name before anything is asked
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
    """What the peer is to get, given what it gets now. Raises Refused if it would get what nobody has asked for."""
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
    return Wanted(peer.id, peer.cluster_key, names, tables, peer.slave_conn_id)


def _left_out(peer: Peer, namespaces: Sequence[str]) -> list[str]:
    """What the peer does not get of these namespaces because its configuration excludes it."""
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
    """Set settings of the peer, each by its name with or without `walferry.`, bandwidth, slave's connection or namespaces.

    An empty value stands for the default. Raises Refused for what is not known, and for a value that is wrong; SourceError for a
    connection that is not there, or not that of the slave.
    """
    settings = {_known(name): value.strip() for name, value in values.items()}
    bandwidth, namespaces = settings.pop(BANDWIDTH, None), settings.pop(NAMESPACES, None)
    _check_values({name: value for name, value in settings.items() if value})
    limit = None if bandwidth is None else _bandwidth(bandwidth)
    before = admin.managed(peer_id)
    if limit is not None:
        _refuse_if_handed_back(admin, before)
    if conn_id := settings.get(SLAVE_CONN_ID):
        admin.session.source.login_at(before.cluster_key, conn_id)
    if namespaces is not None:
        names = [name.strip() for name in namespaces.split(",") if name.strip()]
        set_tables(admin, peer_id, None, names, allow_missing=allow_missing)
    if settings or limit is not None:
        admin.change(peer_id, lambda config: _put(config, settings, limit))
    after = admin.managed(peer_id)
    if namespaces is None and edits_of(after) != edits_of(before):
        raise Refused(f"peer {peer_id}: another command has changed its tables meanwhile", "Look at the peer")
    return after


def _refuse_if_handed_back(admin: PeerAdmin, peer: Peer) -> None:
    """Raises Refused if HBase is to ship a peer with the same tables, namespaces and bandwidth soon: the two must not differ."""
    new = successor(admin.session.zk, admin.session.nodes, peer) if peer.handed_back_to else None
    if new is not None:
        raise Refused(
            f"peer {peer.id} is being handed back to {new.id}, which has its tables, namespaces and bandwidth",
            f"Finish that, and change {new.id} in HBase's shell; or remove {new.id} there, and begin again later",
        )


def settings_of(peer: Peer) -> dict[str, str]:
    """The peer's own settings by their names without `walferry.`, and its bandwidth; those without a value are left out."""
    prefix = peer_settings.PREFIX
    ours = {key.removeprefix(prefix): value for key, value in peer.config.items() if key.startswith(prefix)}
    marks = {key.removeprefix(peer_settings.PREFIX) for key in MARKS} - {MAX_LAG, SLAVE_CONN_ID}
    own = {name: value for name, value in sorted(ours.items()) if value.strip() and name not in marks}
    return {**own, **({BANDWIDTH: str(peer.bandwidth)} if peer.bandwidth else {})}


def _known(name: str) -> str:
    """The setting's name without `walferry.`. Raises Refused, with the name that may be meant."""
    short = name.strip().removeprefix(peer_settings.PREFIX)
    known = [*peer_settings.KEYS, MAX_LAG, SLAVE_CONN_ID, BANDWIDTH, NAMESPACES]
    if short in known:
        return short
    if f"{peer_settings.PREFIX}{short}" in MARKS:
        raise Refused(f"{name} is not a setting", "Use `peers pause`, `resume`, `take-over` or `hand-back`")
    close = difflib.get_close_matches(short, known, 1, 0.5)
    raise Refused(
        f"there is no setting {name!r}{f' (did you mean {close[0]}?)' if close else ''}", f"Settings: {', '.join(known)}"
    )


def _check_values(settings: Mapping[str, str]) -> None:
    try:
        peer_settings.parsed(settings)
        parse_max_lag(settings.get(MAX_LAG, ""))
    except ValueError as error:
        raise Refused(str(error)) from error


def _bandwidth(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0 if not text else -1
    if not 0 <= number <= MAX_BANDWIDTH:
        raise Refused(f"{BANDWIDTH} is {text[:100]!r}; it must be a number of bytes a second, 0 or empty for no limit")
    return number


def _put(config: pb.ReplicationPeer, settings: Mapping[str, str], bandwidth: int | None) -> None:
    put_keys(config, {f"{peer_settings.PREFIX}{name}": value for name, value in settings.items()})
    if bandwidth is not None:
        config.bandwidth = bandwidth

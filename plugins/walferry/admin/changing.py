"""Changes what a managed peer gets, and how it is shipped. A change holds from the next batch on."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from walferry.admin.creating import edits_of, put_edits
from walferry.admin.ends import Wanted, check_ends
from walferry.admin.errors import Refused
from walferry.admin.peers import PeerAdmin, put_keys
from walferry.hbase.peers import MARKS, MAX_LAG_KEY, Peer, parse_max_lag
from walferry.protos import hbase_pb2 as pb
from walferry.source import knobs

BANDWIDTH, NAMESPACES = "bandwidth", "namespaces"
MAX_LAG = MAX_LAG_KEY.removeprefix(knobs.PREFIX)
MAX_BANDWIDTH = (1 << 63) - 1


def set_tables(
    admin: PeerAdmin,
    peer_id: str,
    table_cfs: Mapping[str, Sequence[str]],
    namespaces: Sequence[str] | None = None,
    *,
    allow_missing: bool = False,
) -> Peer:
    """Let the peer get these tables and namespaces, or all user tables if there are none. `namespaces` None: as they are."""
    before = admin.managed(peer_id)
    kept = sorted(before.namespaces) if namespaces is None else namespaces
    wanted = Wanted(peer_id, before.cluster_key, kept, table_cfs)
    put_edits(pb.ReplicationPeer(), wanted)  # refuses what is not a name before anything is asked
    check_ends(admin, wanted, allow_missing=allow_missing)
    admin.change(peer_id, lambda config: put_edits(config, wanted))
    return admin.managed(peer_id)


def set_values(admin: PeerAdmin, peer_id: str, values: Mapping[str, str], *, allow_missing: bool = False) -> Peer:
    """Set settings of the peer, each by its name with or without `walferry.`, its bandwidth, or its namespaces.

    An empty value stands for the default. Raises Refused for what is not known, and for a value that is wrong.
    """
    settings = {_known(name): value.strip() for name, value in values.items()}
    bandwidth, namespaces = settings.pop(BANDWIDTH, None), settings.pop(NAMESPACES, None)
    _check_values({name: value for name, value in settings.items() if value})
    limit = None if bandwidth is None else _bandwidth(bandwidth)
    before = admin.managed(peer_id)
    if namespaces is not None:
        names = [name.strip() for name in namespaces.split(",") if name.strip()]
        if not names and not before.table_cfs:
            raise Refused(
                f"without namespaces peer {peer_id} would get all user tables", "If it should: `peers set-table-cfs --all`"
            )
        set_tables(admin, peer_id, before.table_cfs or {}, names, allow_missing=allow_missing)
    if settings or limit is not None:
        admin.change(peer_id, lambda config: _put(config, settings, limit))
    after = admin.managed(peer_id)
    if namespaces is None and edits_of(after) != edits_of(before):
        raise Refused(f"peer {peer_id}: another command has changed its tables meanwhile", "Look at the peer")
    return after


def settings_of(peer: Peer) -> dict[str, str]:
    """The peer's own settings by their names without `walferry.`, and its bandwidth; those without a value are left out."""
    ours = {key.removeprefix(knobs.PREFIX): value for key, value in peer.config.items() if key.startswith(knobs.PREFIX)}
    marks = {key.removeprefix(knobs.PREFIX) for key in MARKS} - {MAX_LAG}
    own = {name: value for name, value in sorted(ours.items()) if value.strip() and name not in marks}
    return {**own, **({BANDWIDTH: str(peer.bandwidth)} if peer.bandwidth else {})}


def _known(name: str) -> str:
    """The setting's name without `walferry.`. Raises Refused, with the name that may be meant."""
    short = name.strip().removeprefix(knobs.PREFIX)
    known = [*knobs.KEYS, MAX_LAG, BANDWIDTH, NAMESPACES]
    if short in known:
        return short
    if f"{knobs.PREFIX}{short}" in MARKS:
        raise Refused(f"{name} is not a setting", "Use `peers pause`, `resume`, `take-over` or `hand-back`")
    close = difflib.get_close_matches(short, known, 1, 0.5)
    raise Refused(
        f"there is no setting {name!r}{f' (did you mean {close[0]}?)' if close else ''}", f"Settings: {', '.join(known)}"
    )


def _check_values(settings: Mapping[str, str]) -> None:
    try:
        knobs.parsed(settings)
        parse_max_lag(settings.get(MAX_LAG, ""))
    except ValueError as error:
        raise Refused(str(error)) from error


def _bandwidth(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0 if not text else -1
    if not 0 <= number <= MAX_BANDWIDTH:
        raise Refused(f"{BANDWIDTH} is {text[:100]!r}; it must be a number of bytes a second, 0 or empty for no limit")
    return number


def _put(config: pb.ReplicationPeer, settings: Mapping[str, str], bandwidth: int | None) -> None:
    put_keys(config, {f"{knobs.PREFIX}{name}": value for name, value in settings.items()})
    if bandwidth is not None:
        config.bandwidth = bandwidth

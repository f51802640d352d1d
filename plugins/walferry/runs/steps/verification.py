"""The steps of a verification that run inside Airflow's tasks; comparing itself is the Spark job's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walferry.base.zk.client import connected
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.layout import ZNodes
from walferry.replication.peers.reading import read_peer, read_peers, slave_of
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.runs.input import InputError, moment
from walferry.verification.clocks import Skew, skews
from walferry.verification.job import Options
from walferry.verification.outcome import VerificationOutcome
from walferry.verification.results import delete_of_gone_peers, read_result


def choose(source: SourceCluster, asked: str | None) -> list[str]:
    """The peer asked for, whether it is Walferry's or not, or all peers that are managed now.

    Deletes the results of peers that are gone. Raises WalferryError.
    """
    with open_session(source, look_only=True) as session:
        delete_of_gone_peers(session)
        if asked:
            return [read_peer(session.zk, session.nodes, asked).id]
        return sorted(peer.id for peer in read_peers(session.zk, session.nodes).peers if peer.managed)


def options_of(params: Mapping[str, Any]) -> Options:
    """The run's parameters as options. Raises InputError."""
    try:
        options = Options(
            start_row=from_binary_text(params["start_row"] or ""),
            stop_row=from_binary_text(params["stop_row"] or ""),
            start_time=_milliseconds("start_time", params),
            end_time=_milliseconds("end_time", params),
            versions=int(params["versions"]),
            deleted=bool(params["deleted"]),
            recompares=int(params["recompares"]),
            recompare_seconds=float(params["recompare_seconds"]),
            repair=bool(params["repair"]),
        )
    except ValueError as error:
        raise InputError(f"a row is written as HBase's shell shows it, e.g. abc\\x00: {error}") from error
    if options.stop_row and options.start_row >= options.stop_row:
        raise InputError("start_row does not come before stop_row, so there is no row to compare")
    if options.end_time is not None and (options.start_time or 0) >= options.end_time:
        raise InputError("start_time does not come before end_time, so there is no cell to compare")
    return options


def clocks(source: SourceCluster, peer_id: str) -> dict[str, list[Skew]]:
    """How far the clocks of the RegionServers on both sides are ahead of this machine's. Raises WalferryError."""
    with open_session(source, look_only=True) as session:
        peer = read_peer(session.zk, session.nodes, peer_id)
        key, login = peer.slave, source.login_to(peer)
        ours = skews(session.zk, session.nodes, source.login)
        with connected(key.connect_string, whose=slave_of(peer_id, key), login=login) as zk:
            return {"source": ours, "slave": skews(zk, ZNodes(key.znode_parent), login)}


def result(source: SourceCluster, peer_id: str, run: str) -> list[VerificationOutcome] | None:
    """What the run's job has found; None if it has left nothing. Raises WalferryError."""
    with open_session(source, look_only=True) as session:
        return read_result(session, peer_id, run)


def _milliseconds(name: str, params: Mapping[str, Any]) -> int | None:
    return int(moment(name, params[name]).timestamp() * 1000) if params[name] else None

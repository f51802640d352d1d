"""One task of the Spark job: compares a range, and repairs differences if asked to."""

from __future__ import annotations

import logging
from functools import partial

from walferry.base.errors import WalferryError
from walferry.hbase.tables.tables import Tables
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.slave_tables import slave_tables
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session, open_session
from walferry.verification.job import Options, TableRange
from walferry.verification.outcome import VerificationOutcome
from walferry.verification.ranges import RangeComparison

log = logging.getLogger(__name__)


def compare_range(source: SourceCluster, peer: Peer, part: TableRange, options: Options) -> VerificationOutcome:
    """Compare one range. An error becomes the outcome's problem, so that other ranges are compared all the same."""
    try:
        with (
            open_session(source, look_only=True) as session,
            Tables(session.zk, session.nodes, login=source.login) as ours,
            slave_tables(peer, source.login_to(peer)) as theirs,
        ):
            comparison = RangeComparison(ours, theirs, part, options)
            comparison.run()
            problem = _repair(session, peer, part.table, comparison) if options.repair and comparison.shippable else ""
            outcome = comparison.outcome()
            outcome.problem = problem
            return outcome
    except WalferryError as error:
        log.warning("table %s from row %r: %s", part.table, part.start, error)
        return VerificationOutcome(part.table, problem=str(error))


def _repair(session: Session, peer: Peer, table: str, comparison: RangeComparison) -> str:
    """Ship the rows that differ. Returns the error, if any: the comparison is valid all the same."""
    # The modules that ship take a third of a worker's imports. Most runs repair nothing.
    from walferry.verification.repair import repairing, ship_rows

    try:
        with repairing(session, peer, table) as shipment:
            comparison.repair(partial(ship_rows, shipment))
    except WalferryError as error:
        log.warning("not repaired: %s", error)
        return f"not repaired: {error}"
    return ""

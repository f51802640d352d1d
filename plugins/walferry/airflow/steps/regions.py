"""The steps of the DAGs for regions of HBase 1: look, act, and start a cluster whose HMaster does not start."""

from __future__ import annotations

from collections.abc import Callable

from walferry.master import requests
from walferry.master.emergency import start_cluster
from walferry.master.snapshot import look_and_decide
from walferry.master.survey import survey
from walferry.master.work import WorkTerms, carry_out, cluster_of, unstick_beside
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session
from walferry.runs.input import InputError
from walferry.runs.reports.regions import RegionsReport

NOTHING = "Nothing is to be done."


def report(source: SourceCluster, limit_seconds: float) -> RegionsReport:
    """Look at all regions, and say what would be done. Raises WalferryError."""
    with open_session(source) as session:
        looked = look_and_decide(cluster_of(session), limit_seconds)
    request = requests.unstick(looked)
    return RegionsReport(survey(looked), [NOTHING] if request.idle else request.lines)


def act(source: SourceCluster, terms: WorkTerms, tell: Callable[[str], None]) -> RegionsReport:
    """Bring regions to the end of their transitions: as the cluster's master, or beside an HMaster what can be done there.

    If there is nothing to do, the role is not taken. Raises WalferryError.
    """
    told: list[str] = []

    def remember(line: str) -> None:
        told.append(line)
        tell(line)

    with open_session(source) as session:
        looked = look_and_decide(cluster_of(session), terms.limit_seconds)
        if requests.unstick(looked).idle:
            return RegionsReport(survey(looked), [NOTHING])
        looked = (carry_out if looked.hmaster is None else unstick_beside)(session, requests.unstick, terms, remember)
    return RegionsReport(survey(looked), told)


def emergency_start(source: SourceCluster, confirmed: str, terms: WorkTerms, minimum: int, tell: Callable[[str], None]) -> None:
    """Start a cluster without its HMaster. `confirmed` must name its base in ZooKeeper. Raises WalferryError."""
    base = source.znode_parent
    if confirmed != base:
        raise InputError(
            f"confirm is {confirmed[:100]!r}. To start the cluster of {source.quorum} without its HMaster, type its base in "
            f"ZooKeeper there: {base}. Nothing was done"
        )
    with open_session(source) as session:
        start_cluster(session, terms, minimum, tell)
    tell(
        "The cluster is started, and the role has ended, so no master is active. Next, start an HMaster: it finds the regions "
        "open and takes over. Until then no master handles the death of a RegionServer"
    )

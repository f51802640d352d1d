"""Tells OpenLineage what a job has read and written. Airflow's OpenLineage provider asks the operator once its task has ended.

    dataset     namespace hbase://host:port,…/parent: a cluster's ZooKeeper, as in its cluster key; name namespace:table
    inputs      the source's tables that the peer gets
    outputs     the same tables at the peer cluster, unless the job only reads; of a peer of Kafka its topics, in the namespace
                kafka://host:port; of a lake none
    run facet   `walferry`: peer, and the totals of the run's WAL groups. An edit does not say how many rows of which table it
                has shipped, so tables have no figures of their own

OpenLineage has no names for HBase's tables (https://openlineage.io/docs/spec/naming). These follow its rule for stores of
tables: the namespace says how the store is reached.

This module needs apache-airflow-providers-openlineage. Only the provider makes Walferry import it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from airflow.providers.openlineage.extractors.base import OperatorLineage
from attrs import define
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import RunFacet

from walferry.airflow.hooks.hbase import HBaseSourceHook
from walferry.base.errors import WalferryError
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.topic_rules import topic_of
from walferry.replication.source.cluster import SourceCluster, canonical

MOST_TABLES = 500  # of an event, the first ones by name
FACET = "walferry"

log = logging.getLogger(__name__)


@define
class WalferryRunFacet(RunFacet):
    """The peer, and what the run has shipped, under the names of HBase's metrics."""

    peer: str
    totals: Mapping[str, Any]

    @staticmethod
    def _get_schema() -> str:
        return "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunFacet"


def lineage_of(source: str, peer: str, *, tables: Sequence[str], run_id: str, writes: bool) -> OperatorLineage[Any, Any]:
    """Return what a job has read and written: of `tables`, or of all tables that the peer gets if there are none.

    `run_id` is the one under which the summaries of the job's WAL groups are kept; it is empty if it keeps none. Raises
    WalferryError.
    """
    from walferry.replication.source.peers import read_peer
    from walferry.replication.source.session import open_session
    from walferry.runs.reports.batch import totals_of
    from walferry.shipping.runs import read_run

    cluster = HBaseSourceHook(source).get_conn()
    with open_session(cluster, look_only=True) as session:
        target = read_peer(session, peer)
        shipped = read_run(session, peer, run_id) if run_id else ()
    names = [table if ":" in table else f"default:{table}" for table in sorted(tables or _all_tables(cluster, peer))]
    if len(names) > MOST_TABLES:
        log.info("OpenLineage learns the first %d of %d tables of peer %s", MOST_TABLES, len(names), peer)
        names = names[:MOST_TABLES]
    inputs = [InputDataset(namespace=of_source(cluster), name=name) for name in names]
    theirs = _written(target, names)
    if not writes:
        inputs += [InputDataset(namespace=space, name=name) for space, name in theirs]
    return OperatorLineage(
        inputs=inputs,
        outputs=[OutputDataset(namespace=space, name=name) for space, name in theirs] if writes else [],
        run_facets={FACET: WalferryRunFacet(peer=peer, totals=totals_of(shipped) if shipped else {})},
    )


def _written(peer: Peer, tables: Sequence[str]) -> list[tuple[str, str]]:
    """Return OpenLineage's namespaces and names of what edits of these tables go into. Of a lake they are not known here."""
    if peer.in_hbase:
        return [(namespace(peer.cluster_key), table) for table in tables]
    if not peer.kafka:
        return []
    topics = peer.kafka_rules.named or [topic_of(table) for table in tables]
    return [(f"kafka://{peer.kafka.partition(',')[0]}", topic) for topic in topics]


def _all_tables(source: SourceCluster, peer: str) -> Sequence[str]:
    from walferry.observe.complete_hours import tables_of

    try:
        return tables_of(source, [peer]).get(peer, [])
    except WalferryError as error:  # such as a source without an HMaster
        log.warning("OpenLineage learns no tables of peer %s: %s", peer, error)
        return []


def namespace(cluster_key: str) -> str:
    """Return OpenLineage's namespace of the cluster with this key, the same one for all its keys."""
    hosts, _, parent = canonical(cluster_key).rpartition(":")
    return f"hbase://{hosts}{parent}"


def of_source(source: SourceCluster) -> str:
    """Return OpenLineage's namespace of a source."""
    return namespace(f"{source.quorum}:2181:{source.znode_parent}")

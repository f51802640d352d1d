"""Says why edits of a table may not be loaded as files, from the peer cluster's data: its schema, its regions, its own peers.

A bulk load passes by everything that a put meets: coprocessors' hooks, the memstore's sequence numbers, the peer cluster's own
replication. docs/hfiles.md has the whole list, including the points that need no rule. Each function returns the first reason.

    TableSchema         attributes  READONLY=true · coprocessor$1=<jar>|<class>|<priority>|<arguments>
      ColumnFamilySchema  attributes  NEW_VERSION_BEHAVIOR=true · IS_MOB=true · ENCRYPTION=AES · REPLICATION_SCOPE=1 …

Source: HBase's TableDescriptorBuilder, ColumnFamilyDescriptorBuilder (branch-2.6), HTableDescriptor (branch-1.4).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from kazoo.exceptions import KazooException

from walferry.base.errors import WalferryError
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import visible
from walferry.base.zk.client import connect, disconnect
from walferry.hbase.cluster import cluster_id
from walferry.hbase.layout import ZNodes
from walferry.hbase.names import is_file_name
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import AccessDenied, RemoteError
from walferry.hbase.rpc.master import list_peers
from walferry.hbase.tables.regions import ENABLED, Region, TableInMeta
from walferry.replication.filters.rules import PeerTables
from walferry.replication.peers.reading import INTER_CLUSTER_ENDPOINTS, Peer, peer_cluster_of
from walferry.replication.source.agreement import peer_of_master

log = logging.getLogger(__name__)

# Limits for asking where the peer cluster's own peers lead: a peer cluster may name any place, so little is asked, and briefly.
MOST_ASKED, ASKED_AT_ONCE = 8, 4
ASK_SECONDS = 5.0
ASKED_BYTES = 64 << 10  # of an answer; a cluster's id has less than a thousand bytes
MAX_ID_CHARS = 100
_COPROCESSOR = "coprocessor$"
_UNKNOWN_CALL = "UnsupportedOperationException: ListReplicationPeers"  # RpcServer of HBase 1, for a call that it does not know
# The peer through which HBase 2 feeds read replicas of regions. The replicas take bulk loads as well as puts.
_REPLICAS_ENDPOINT = "org.apache.hadoop.hbase.replication.regionserver.RegionReplicaReplicationEndpoint"


@dataclass(frozen=True)
class OwnPeers:
    """The peer cluster's own peers, with the tables that each replicates; `unread` says why some or all could not be read."""

    choices: Mapping[str, PeerTables]
    unread: str = ""

    def takers(self, table: bytes, family: bytes) -> str:
        """Return which peers get the family's edits, or may get them; empty if none does."""
        if self.unread:
            return f"its peers may take it ({self.unread})"
        ids = [peer_id for peer_id, choice in self.choices.items() if choice.wants(table, family)]
        return f"its peer {', '.join(ids)} takes it" if ids else ""


def read_own_peers(master: Connection, source_id: UUID) -> OwnPeers:
    """Ask the peer cluster's Master for its own peers, whatever their states, and leave out peers that lead to the source.

    ZooKeeper need not contain them: a cluster may keep its peers in files, and then leaves old copies in ZooKeeper
    (replication/source/agreement.py). If two clusters replicate to each other, the peer cluster has a peer to the source. That
    peer gets none of these edits in any case, because they carry the source's id. Raises RpcError if it does not answer.
    """
    try:
        listing = [peer_of_master(peer) for peer in list_peers(master)]
    except AccessDenied:  # only an ADMIN may ask
        return OwnPeers({}, "its Master tells this login nothing of them")
    except RemoteError as error:
        if _UNKNOWN_CALL in str(error):
            return OwnPeers({}, "its Master cannot be asked for them: it runs HBase 1, which takes no files either")
        return OwnPeers({}, str(error))
    others = [peer for peer in listing if peer.endpoint_impl != _REPLICAS_ENDPOINT]
    with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
        back = list(pool.map(lambda peer: _leads_to(peer, source_id), others[:MOST_ASKED]))
    there = {peer.id for peer, leads in zip(others, back, strict=False) if leads}
    return OwnPeers({peer.id: PeerTables.of_peer(peer) for peer in others if peer.id not in there})


def _leads_to(peer: Peer, wanted: UUID) -> bool:
    """Return whether a peer leads to the cluster `wanted`, as far as this machine can see."""
    if peer.endpoint_impl not in INTER_CLUSTER_ENDPOINTS:
        return False
    try:
        key = peer.peer_cluster
        whose = peer_cluster_of(peer.id, key)
        zk = connect(key.connect_string, ASK_SECONDS, call_timeout=ASK_SECONDS, whose=whose, most_bytes=ASKED_BYTES)
        try:
            return cluster_id(zk, ZNodes(key.znode_parent)) == wanted
        finally:
            disconnect(zk)
    except (WalferryError, KazooException) as error:
        log.info("where the peer cluster's own peer %s leads to cannot be seen: %s", visible(peer.id, MAX_ID_CHARS), error)
        return False


def unfit_table(table: pb.TableSchema, in_meta: TableInMeta) -> str:
    """Return why no family of the table may be loaded; empty if nothing speaks against it."""
    attributes = attributes_of(table.attributes)
    if coprocessors := [value for key, value in attributes.items() if key.strip().lower().startswith(_COPROCESSOR)]:
        return f"it has the coprocessor {_class_of(coprocessors[0])}, whose hooks see puts, but no bulk loads"
    if _is_true(attributes, "READONLY"):
        return "it is read-only (READONLY)"
    if in_meta.state != ENABLED:
        return f"it is {in_meta.state}, not {ENABLED}"
    return unfit_regions(in_meta.regions)


def unfit_family(table: bytes, family: pb.ColumnFamilySchema, own_peers: OwnPeers) -> str:
    """Return why a family of a table may not be loaded; empty if nothing speaks against it."""
    attributes, name = attributes_of(family.attributes), family.name.decode(errors="backslashreplace")
    if not is_file_name(name) or name.encode() != family.name:
        return f"family {name!r} has a name that no folder for its files can have"
    if _is_true(attributes, "NEW_VERSION_BEHAVIOR"):
        return f"family {name} has NEW_VERSION_BEHAVIOR: a deletion counts by the order of writes, which a load does not keep"
    if _is_true(attributes, "IS_MOB"):
        return f"family {name} is a MOB family (IS_MOB), whose large values belong in files of another kind"
    if attributes.get("ENCRYPTION"):
        return f"family {name} is encrypted (ENCRYPTION), and these files would not be"
    scope = attributes.get("REPLICATION_SCOPE", "0")
    if scope != "0" and (takers := own_peers.takers(table, family.name)):
        return (
            f"family {name} has REPLICATION_SCOPE {scope} at the peer cluster, and {takers}: that peer gets bulk loads only "
            "if the peer cluster's RegionServers replicate them (hbase.replication.bulkload.enabled), which cannot be seen from "
            "outside"
        )
    return ""


def unfit_regions(regions: Sequence[Region]) -> str:
    """Return why files cannot be cut at the borders of these regions, which are ordered by their rows; empty if they can."""
    if not regions:
        return "hbase:meta has no open region of it"
    if regions[0].start:
        return f"hbase:meta has no open region for its rows before {_shown(regions[0].start)}"
    for before, after in pairwise(regions):
        if before.end and before.end < after.start:
            return f"hbase:meta has no open region for its rows from {_shown(before.end)} to {_shown(after.start)}"
        if before.end != after.start or before.start == after.start:
            return f"its regions {before.encoded_name} and {after.encoded_name} overlap in hbase:meta"
    if regions[-1].end:
        return f"hbase:meta has no open region for its rows from {_shown(regions[-1].end)} on"
    return next((f"no server has its region {region.encoded_name}" for region in regions if region.server is None), "")


def attributes_of(pairs: Iterable[pb.BytesBytesPair]) -> dict[str, str]:
    """Return the attributes of a table or a family as text."""
    return {pair.first.decode(errors="replace"): pair.second.decode(errors="replace") for pair in pairs}


def _is_true(attributes: Mapping[str, str], name: str) -> bool:
    return attributes.get(name, "").lower() == "true"


def _class_of(coprocessor: str) -> str:
    """Return the class in an attribute <jar>|<class>|<priority>|<arguments>."""
    return [*coprocessor.split("|"), ""][1].strip() or repr(coprocessor)


def _shown(row: bytes) -> str:
    return repr(row[:100])

"""Each reason why edits of a table may not be loaded as files, in words that name the cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest

from tests.unit.shipping.bulkload.own_peers import REPLICAS, Master, described
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.names import ServerName
from walferry.hbase.rpc.errors import AccessDenied, ConnectionFailed, RemoteError
from walferry.hbase.tables.regions import Region, TableInMeta
from walferry.replication.filters.rules import PeerTables
from walferry.shipping.bulkload import fitness
from walferry.shipping.bulkload.fitness import OwnPeers, read_own_peers, unfit_family, unfit_regions, unfit_table

SERVER = ServerName("h", 1, 1)
NO_PEERS = OwnPeers({})


def region(start: bytes, end: bytes, server: ServerName | None = SERVER) -> Region:
    return Region(b"t,%s,1.of-%s." % (start, start), start, end, server)


WHOLE = TableInMeta((region(b"", b"m"), region(b"m", b"")))


def pairs(attributes: Mapping[str, str]) -> list[pb.BytesBytesPair]:
    return [pb.BytesBytesPair(first=key.encode(), second=value.encode()) for key, value in attributes.items()]


def of_table(in_meta: TableInMeta = WHOLE, **attributes: str) -> str:
    return unfit_table(pb.TableSchema(attributes=pairs(attributes)), in_meta)


def of_family(own_peers: OwnPeers = NO_PEERS, **attributes: str) -> str:
    return unfit_family(b"ns:t", pb.ColumnFamilySchema(name=b"f", attributes=pairs(attributes)), own_peers)


def test_a_table_as_hbase_makes_it_is_fit():
    assert of_table(READONLY="false", IS_META="false", REGION_REPLICATION="3", MAX_FILESIZE="1") == ""
    assert of_family(
        VERSIONS="1", KEEP_DELETED_CELLS="TRUE", TTL="5", IN_MEMORY_COMPACTION="EAGER", NEW_VERSION_BEHAVIOR="false",
        IS_MOB="false", REPLICATION_SCOPE="1",
    ) == ""  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("coprocessor$1", "|org.example.Index|1001|", "org.example.Index"),
        ("coprocessor$12", "hdfs:///a.jar|org.example.Index|5|k=v", "org.example.Index"),
        ("COPROCESSOR$1 ", "hdfs:///a.jar| org.example.Index |", "org.example.Index"),
        ("coprocessor$1", "nonsense", "'nonsense'"),
    ],
)
def test_a_coprocessor_is_named_by_its_class(key, value, named):
    assert of_table(**{key: value}) == f"it has the coprocessor {named}, whose hooks see puts, but no bulk loads"


@pytest.mark.parametrize(
    ("in_meta", "attributes", "reason"),
    [
        (WHOLE, {"READONLY": "TRUE"}, "it is read-only (READONLY)"),
        (TableInMeta(WHOLE.regions, "DISABLED"), {}, "it is DISABLED, not ENABLED"),
        (TableInMeta(WHOLE.regions, "ENABLING"), {}, "it is ENABLING, not ENABLED"),
        (TableInMeta((region(b"", b""), region(b"", b""))), {}, "its regions of- and of- overlap in hbase:meta"),
    ],
)
def test_a_table_that_takes_no_files_says_why(in_meta, attributes, reason):
    assert of_table(in_meta, **attributes) == reason


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"NEW_VERSION_BEHAVIOR": "TRUE"}, "family f has NEW_VERSION_BEHAVIOR"),
        ({"IS_MOB": "true"}, "family f is a MOB family"),
        ({"ENCRYPTION": "AES"}, "family f is encrypted"),
    ],
)
def test_a_family_that_takes_no_files_says_why(attributes, reason):
    assert of_family(**attributes).startswith(reason)


@pytest.mark.parametrize("name", [b"..", b".", b"../../data", b"a/b", b"a\0", b"caf\xe9"])
def test_a_family_whose_name_leads_elsewhere_takes_no_files(name):
    """HBase has no such families: a peer cluster that names one is not one."""
    assert "no folder" in unfit_family(b"ns:t", pb.ColumnFamilySchema(name=name), NO_PEERS)


def test_a_family_that_a_peer_of_the_peer_cluster_gets_is_unfit_and_the_peer_named():
    own = OwnPeers({
        "other": PeerTables(replicate_all=False, table_families={b"ns:u": frozenset()}),
        "without": PeerTables(exclude_namespaces=frozenset({b"ns"})),
        "all": PeerTables(),
        "ours": PeerTables(replicate_all=False, table_families={b"ns:t": frozenset({b"f"})}),
    })  # fmt: skip
    reason = of_family(own, REPLICATION_SCOPE="1")
    assert reason.startswith("family f has REPLICATION_SCOPE 1 at the peer cluster, and its peer all, ours takes it: ")
    assert of_family(own, REPLICATION_SCOPE="0") == of_family(own) == ""
    none_of_it = OwnPeers({"other": own.choices["other"], "without": own.choices["without"]})
    assert of_family(none_of_it, REPLICATION_SCOPE="1") == ""


def test_peers_that_cannot_be_read_may_get_any_replicated_family():
    own = OwnPeers({}, "znode /hbase/replication/peers/p is broken")
    assert "its peers may take it (znode /hbase/replication/peers/p is broken)" in of_family(own, REPLICATION_SCOPE="1")
    assert of_family(own) == ""


def own_peers(*peers: pb.ReplicationPeerDescription, error: Exception | None = None) -> OwnPeers:
    master: Any = Master(*peers, error=error)
    return read_own_peers(master, UUID(int=1))


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing answers where the peer cluster's peers lead to."""

    def connect(*_: object, **__: object) -> None:
        raise ConnectionFailed("zk", "refused")

    monkeypatch.setattr(fitness, "connect", connect)


@pytest.mark.usefixtures("unreachable")
def test_the_peer_cluster_s_master_names_its_peers_wherever_it_keeps_them():
    """After `hbase copyreppeers zookeeper filesystem` ZooKeeper has old copies, or none, and nobody keeps them up to date."""
    own = own_peers(
        described("enabled"),
        described("disabled", state=pb.ReplicationState.DISABLED),
        described("custom", replicationEndpointImpl="org.example.Endpoint"),
        described("of-u", replicate_all=False, table_cfs=[pb.TableCF(table_name=pb.TableName(namespace=b"ns", qualifier=b"u"))]),
        described("region_replica_replication", replicationEndpointImpl=REPLICAS),
    )
    assert own.takers(b"ns:t", b"f") == "its peer enabled, disabled, custom takes it"
    assert own_peers() == NO_PEERS


@pytest.mark.usefixtures("unreachable")
def test_a_peer_whose_tables_cannot_be_read_takes_all():
    table = pb.TableCF(table_name=pb.TableName(namespace=b"\xff", qualifier=b"u"))
    broken = described("odd", replicate_all=False, table_cfs=[table])
    assert own_peers(broken).takers(b"ns:t", b"f") == "its peer odd takes it"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (AccessDenied("m", "AccessDeniedException", "Insufficient permissions"), "its Master tells this login nothing of them"),
        (RemoteError("m", "java.lang.UnsupportedOperationException", "ListReplicationPeers"), "HBase 1, which takes no files"),
        (RemoteError("m", "java.io.IOException", "its storage is away"), "its storage is away"),
    ],
    ids=["refused", "HBase 1", "an error of its own"],
)
def test_peers_that_a_master_does_not_tell_may_get_any_replicated_family(error: Exception, reason: str):
    own = own_peers(error=error)
    assert reason in of_family(own, REPLICATION_SCOPE="1")
    assert of_family(own) == ""


@pytest.mark.parametrize(
    ("regions", "reason"),
    [
        ([], "hbase:meta has no open region of it"),
        ([region(b"c", b"")], "hbase:meta has no open region for its rows before b'c'"),
        ([region(b"", b"c")], "hbase:meta has no open region for its rows from b'c' on"),
        ([region(b"", b"c"), region(b"d", b"")], "hbase:meta has no open region for its rows from b'c' to b'd'"),
        ([region(b"", b"d"), region(b"c", b"")], "its regions of- and of-c overlap in hbase:meta"),
        ([region(b"", b""), region(b"c", b"")], "its regions of- and of-c overlap in hbase:meta"),
        ([region(b"", b"c"), region(b"c", b"c"), region(b"c", b"")], "its regions of-c and of-c overlap in hbase:meta"),
        ([region(b"", b"c"), region(b"c", b"", None)], "no server has its region of-c"),
    ],
)
def test_regions_must_have_all_rows_once_and_a_server_each(regions, reason):
    assert unfit_regions(regions) == reason

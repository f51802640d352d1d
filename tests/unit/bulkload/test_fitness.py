"""Each reason why edits of a table may not be loaded as files, in words that name what is there."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from walferry.bulkload.fitness import OwnPeers, read_own_peers, unfit_family, unfit_regions, unfit_table
from walferry.filters.rules import PeerTables
from walferry.hbase.layout import ZNodes
from walferry.names import ServerName
from walferry.protos import hbase_pb2 as pb
from walferry.tables.regions import Region, TableInMeta

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
    """HBase has no such families: a slave that names one is not one."""
    assert "no folder" in unfit_family(b"ns:t", pb.ColumnFamilySchema(name=name), NO_PEERS)


def test_a_family_that_a_peer_of_the_slave_gets_is_unfit_and_the_peer_named():
    own = OwnPeers({
        "other": PeerTables(replicate_all=False, table_families={b"ns:u": frozenset()}),
        "without": PeerTables(exclude_namespaces=frozenset({b"ns"})),
        "all": PeerTables(),
        "ours": PeerTables(replicate_all=False, table_families={b"ns:t": frozenset({b"f"})}),
    })  # fmt: skip
    reason = of_family(own, REPLICATION_SCOPE="1")
    assert reason.startswith("family f has REPLICATION_SCOPE 1 at the slave, and its peer all, ours takes it: ")
    assert of_family(own, REPLICATION_SCOPE="0") == of_family(own) == ""
    none_of_it = OwnPeers({"other": own.choices["other"], "without": own.choices["without"]})
    assert of_family(none_of_it, REPLICATION_SCOPE="1") == ""


def test_peers_that_cannot_be_read_may_get_any_replicated_family():
    own = OwnPeers({}, "znode /hbase/replication/peers/p is broken")
    assert "its peers may take it (znode /hbase/replication/peers/p is broken)" in of_family(own, REPLICATION_SCOPE="1")
    assert of_family(own) == ""


def test_a_secured_slave_that_never_had_a_peer_has_none_though_its_servers_versions_may_not_be_read():
    class NeverHadOne(KazooClient):
        def get_children(self, path, watch=None):
            if path == "/hbase/rs":
                return ["h,1,1"]
            raise NoNodeError

        def get(self, path):
            if path.endswith("/hbaseid"):
                return str(UUID(int=2)).encode(), None
            raise NoAuthError if path.endswith("/h,1,1") else NoNodeError

    assert read_own_peers(NeverHadOne(), ZNodes("/hbase"), UUID(int=1)) == NO_PEERS


def test_peers_that_a_secured_slave_keeps_to_itself_may_get_any_replicated_family():
    class Closed(KazooClient):
        def get_children(self, *_, **__):
            raise NoAuthError

    own = read_own_peers(Closed(), ZNodes("/hbase"), UUID(int=1))
    assert "its peers may take it (/hbase/replication/peers does not let this login in)" in of_family(own, REPLICATION_SCOPE="1")
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

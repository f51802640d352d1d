"""The cases of HBase's TestReplicationWALEntryFilters, with its tables, families and peers."""

from __future__ import annotations

import pytest

from tests.unit.replication.filters.test_entry_filter import (
    PEER_CLUSTER,
    RULES,
    SOURCE,
    batch_of,
    entry,
    put,
    reasons,
    request_of,
)
from walferry.base.protos import hbase_pb2 as pb
from walferry.replication.filters.rules import FilterRules, Reason
from walferry.replication.peers.reading import as_peer

LOCAL, GLOBAL = pb.REPLICATION_SCOPE_LOCAL, pb.REPLICATION_SCOPE_GLOBAL
ALL = dict.fromkeys((b"a", b"b", b"c", b"d"), GLOBAL)
BAR, FOO, FOO_A, FOO_A_C = {"bar": ""}, {"foo": ""}, {"foo": "a"}, {"foo": "ac"}


def kept(families: str, rules: FilterRules = RULES, scopes: dict[bytes, int] = ALL) -> str:
    """The families whose cells are kept of an entry of table foo with a cell in each of `families`."""
    e = entry(*(put(family.encode(), value=b"of " + family.encode()) for family in families), table=b"foo", scopes=scopes)
    _, cells = request_of(batch_of(e), rules)
    return "".join(family for family in families if b"of " + family.encode() in cells)


@pytest.mark.parametrize(
    ("table", "passes"),
    [(b"hbase:meta", False), (b"hbase:namespace", False), (b"foo", True), (b"hbase:acl", True), (b"hbase:labels", True)],
)
def test_system_table_wal_entry_filter(table, passes):
    assert reasons(batch_of(entry(put(), table=table))) == [Reason.SHIPPED if passes else Reason.SYSTEM_TABLE]


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        ({}, ""),
        ({b"c": GLOBAL}, ""),
        ({b"a": LOCAL}, ""),
        ({b"a": LOCAL, b"b": LOCAL}, ""),
        ({b"a": GLOBAL}, "a"),
        ({b"a": GLOBAL, b"b": LOCAL}, "a"),
        ({b"b": GLOBAL}, "b"),
        ({b"a": LOCAL, b"b": GLOBAL}, "b"),
        ({b"a": GLOBAL, b"b": GLOBAL}, "ab"),
    ],
)
def test_scope_wal_entry_filter(scopes, expected):
    assert kept("ab", scopes=scopes) == expected


def rules_of(*, replicate_all: bool, namespaces: tuple[str, ...] = (), table_cfs: dict[str, str] | None = None) -> FilterRules:
    """The rules of a peer that names these; with `replicate_all` it leaves them out. No families are all of them."""
    message = pb.ReplicationPeer(clusterkey="h:2181:/hbase", replicate_all=replicate_all)
    (message.exclude_namespaces if replicate_all else message.namespaces).extend(name.encode() for name in namespaces)
    for table, families in (table_cfs or {}).items():
        namespace, _, qualifier = table.rpartition(":")
        (message.exclude_table_cfs if replicate_all else message.table_cfs).add(
            table_name=pb.TableName(namespace=(namespace or "default").encode(), qualifier=qualifier.encode()),
            families=[family.encode() for family in families],
        )
    return FilterRules.of_peer(as_peer("p", message, "DISABLED", "/peers/p"), SOURCE, PEER_CLUSTER)


@pytest.mark.parametrize(
    ("namespaces", "table_cfs", "expected"),
    [
        ((), None, ""),
        ((), {}, ""),
        ((), BAR, ""),
        ((), FOO_A, "a"),
        ((), FOO_A_C, "ac"),
        (("default",), None, "abcd"),
        (("ns1",), None, ""),
        (("ns1",), FOO_A_C, "ac"),
        (("default",), {"ns1:foo": "ac"}, "abcd"),
        (("ns1",), BAR, ""),
    ],
)
def test_namespace_table_cf_wal_entry_filter(namespaces, table_cfs, expected):
    assert kept("abcd", rules_of(replicate_all=False, namespaces=namespaces, table_cfs=table_cfs)) == expected


@pytest.mark.parametrize(
    ("namespaces", "table_cfs", "expected"),
    [
        ((), None, "abc"),
        (("default",), None, ""),
        (("ns1",), None, "abc"),
        ((), {}, "abc"),
        ((), BAR, "abc"),
        ((), FOO_A, "bc"),
        ((), FOO, ""),
        (("ns1",), FOO_A_C, "b"),
        (("default",), {"ns1:bar": ""}, ""),
    ],
)
def test_namespace_table_cf_wal_entry_filter_2(namespaces, table_cfs, expected):
    assert kept("abc", rules_of(replicate_all=True, namespaces=namespaces, table_cfs=table_cfs)) == expected


def test_chain_wal_entry_filter():
    """An entry passes if each filter of the chain lets something of it pass, and with what all of them leave."""
    rules = rules_of(replicate_all=False, table_cfs=FOO_A_C)
    scopes = {b"a": GLOBAL, b"b": GLOBAL, b"c": LOCAL}
    assert kept("abc", rules, scopes) == "a"
    assert kept("bc", rules, scopes) == ""  # the scopes leave b, and the peer's table-families leave c
    seen = entry(put(b"a"), table=b"foo", scopes=ALL, ids=(PEER_CLUSTER,))
    assert reasons(batch_of(seen), rules) == [Reason.FROM_PEER_CLUSTER]

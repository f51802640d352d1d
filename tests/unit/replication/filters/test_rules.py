"""A peer's edits by its tables and families, without deleted, loaded or copied ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.hbase.wal.encoder import PUT, Cell
from tests.unit.replication.filters.test_entry_filter import (
    GLOBAL,
    PEER_CLUSTER,
    RULES,
    SOURCE,
    batch_of,
    entry,
    put,
    reasons,
    request_of,
)
from tests.unit.replication.filters.test_hbase_cases import LOCAL, kept
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import FilterRules, PeerTables, Reason


def test_system_tables_are_dropped_but_for_acl_and_labels():
    tables = (b"hbase:meta", b"hbase:acl", b"hbase:labels", b"hbase:namespace", b"hbaseish", b"ns:hbase")
    assert [r == Reason.SYSTEM_TABLE for r in reasons(batch_of(*(entry(put(), table=t) for t in tables)))] == [
        True, False, False, True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tables", "shipped"),
    [
        (PeerTables(), {b"t.f", b"t.g", b"ns:u.f", b"ns:u.g"}),
        (PeerTables(exclude_namespaces=frozenset({b"ns"})), {b"t.f", b"t.g"}),
        (PeerTables(exclude_table_families={b"t": frozenset()}), {b"ns:u.f", b"ns:u.g"}),
        (PeerTables(exclude_table_families={b"t": frozenset({b"g"})}), {b"t.f", b"ns:u.f", b"ns:u.g"}),
        (PeerTables(replicate_all=False), set()),
        (PeerTables(replicate_all=False, namespaces=frozenset({b"ns"})), {b"ns:u.f", b"ns:u.g"}),
        (PeerTables(replicate_all=False, namespaces=frozenset({b"default"})), {b"t.f", b"t.g"}),
        (PeerTables(replicate_all=False, table_families={b"t": frozenset()}), {b"t.f", b"t.g"}),
        (PeerTables(replicate_all=False, table_families={b"ns:u": frozenset({b"f"})}), {b"ns:u.f"}),
        (
            PeerTables(replicate_all=False, namespaces=frozenset({b"ns"}), table_families={b"t": frozenset({b"g", b"h"})}),
            {b"t.g", b"ns:u.f", b"ns:u.g"},
        ),
    ],
)
def test_a_peer_gets_the_tables_and_families_that_it_names(tables, shipped):
    scopes = {b"f": GLOBAL, b"g": GLOBAL}
    entries = [entry(put(b"f", value=t + b".f"), put(b"g", value=t + b".g"), table=t, scopes=scopes) for t in (b"t", b"ns:u")]
    _, cells = request_of(batch_of(*entries), FilterRules(SOURCE, PEER_CLUSTER, tables))
    assert {v for v in (b"t.f", b"t.g", b"ns:u.f", b"ns:u.g") if v in cells} == shipped


def test_edits_that_the_peer_cluster_has_got_as_files_are_filtered_under_a_reason_of_their_own():
    rules = RULES.without_loaded({b"t": frozenset({b"f"}), b"ns:t": frozenset({b"f"})})
    batch = batch_of(entry(put()), entry(put(), table=b"u"), entry(put(), table=b"ns:t"), entry(put(), table=b"u", scopes={}))
    assert reasons(batch, rules) == [Reason.LOADED, Reason.SHIPPED, Reason.LOADED, Reason.NOT_GLOBAL]
    request, _ = request_of(batch, rules)
    assert [e.key.table_name for e in request.entry] == [b"u"]


@pytest.mark.parametrize(
    "now",
    [
        PeerTables(),
        PeerTables(replicate_all=False, table_families={b"t": frozenset({b"f", b"g"})}),
        PeerTables(exclude_table_families={b"t": frozenset({b"h"})}),
        PeerTables(deleted={b"t": frozenset({b"h"})}),
    ],
    ids=["all", "named", "all but", "deleted"],
)
def test_a_family_that_the_peer_gets_after_a_load_is_shipped_from_the_wals_of_the_load(now: PeerTables):
    """No file ever had its edits: the peer did not get it then (`peers set-table-cfs`)."""
    rules = replace(RULES, tables=now).without_loaded({b"t": frozenset({b"f"})})
    scopes = dict.fromkeys((b"f", b"g", b"h"), 1)
    f, g = (Cell(b"r", family, b"q", 1, PUT, b"v") for family in (b"f", b"g"))
    batch = batch_of(entry(f, scopes=scopes), entry(g, scopes=scopes), entry(f, g, scopes=scopes))
    assert reasons(batch, rules) == [Reason.LOADED, Reason.SHIPPED, Reason.SHIPPED]
    assert filter_batch(batch, rules, "w").cells.tolist() == [0, 1, 1]


def test_what_is_loaded_hides_neither_what_the_peer_does_not_get_nor_what_is_deleted():
    tables = PeerTables(exclude_table_families={b"t": frozenset()}, deleted={b"u": frozenset()})
    rules = FilterRules(SOURCE, PEER_CLUSTER, tables).without_loaded({table: frozenset({b"f"}) for table in (b"t", b"v")})
    batch = batch_of(*(entry(put(), table=table) for table in (b"t", b"u", b"v", b"w")))
    assert reasons(batch, rules) == [Reason.NOT_IN_PEER, Reason.DELETED, Reason.LOADED, Reason.SHIPPED]


def test_rules_without_loads_are_the_same_rules():
    assert RULES.without_loaded({}) is RULES


def test_what_is_older_than_an_initial_snapshot_is_filtered_by_family_under_a_reason_of_its_own():
    rules, both = RULES.without_copied({b"t": frozenset({b"f"})}), dict.fromkeys((b"f", b"g"), GLOBAL)
    batch = batch_of(entry(put()), entry(put(), table=b"u"), entry(put(), put(b"g"), scopes=both), entry(put(), scopes={}))
    assert reasons(batch, rules) == [Reason.COPIED, Reason.SHIPPED, Reason.SHIPPED, Reason.NOT_GLOBAL]
    assert filter_batch(batch, rules, "wal").cells.tolist() == [0, 1, 1, 0]


def test_of_what_is_loaded_and_older_than_an_initial_snapshot_only_the_rest_is_shipped():
    rules = RULES.without_loaded({b"t": frozenset({b"f"})}).without_copied({b"t": frozenset({b"g"})})
    scopes = dict.fromkeys((b"f", b"g", b"h"), GLOBAL)
    batch = batch_of(*(entry(put(family), scopes=scopes) for family in (b"f", b"g", b"h")))
    assert reasons(batch, rules) == [Reason.LOADED, Reason.COPIED, Reason.SHIPPED]
    assert RULES.without_copied({}) is RULES


@pytest.mark.parametrize(
    ("tables", "deleted", "expected"),
    [
        (PeerTables(), {b"foo": frozenset()}, ""),
        (PeerTables(), {b"bar": frozenset()}, "abc"),
        (PeerTables(), {b"foo": frozenset({b"a"})}, "bc"),
        (PeerTables(exclude_table_families={b"foo": frozenset({b"b"})}), {b"foo": frozenset({b"a"})}, "c"),
        (PeerTables(replicate_all=False, table_families={b"foo": frozenset({b"a"})}), {b"foo": frozenset({b"a"})}, ""),
        (PeerTables(replicate_all=False, table_families={b"foo": frozenset({b"a", b"c"})}), {b"foo": frozenset({b"a"})}, "c"),
        (PeerTables(replicate_all=False), {b"foo": frozenset({b"a"})}, ""),
    ],
)
def test_what_is_deleted_at_both_clusters_is_dropped_of_what_the_peer_would_get(tables, deleted, expected):
    assert kept("abc", FilterRules(SOURCE, PEER_CLUSTER, replace(tables, deleted=deleted))) == expected


def test_what_is_dropped_because_it_is_deleted_is_counted_as_that_and_nothing_else_is():
    deleted = {b"foo": frozenset[bytes](), b"ns:t": frozenset[bytes](), b"bar": frozenset({b"f"})}
    tables = PeerTables(exclude_namespaces=frozenset({b"ns"}), deleted=deleted)
    entries = [
        entry(put(), table=b"foo"),
        entry(put(), table=b"ns:t"),
        entry(put(), table=b"foo", scopes={b"f": LOCAL}),
        entry(put(), table=b"foo", ids=(PEER_CLUSTER,)),
        entry(put(b"f"), table=b"bar"),
        entry(put(b"f"), put(b"g"), table=b"bar", scopes={b"f": GLOBAL, b"g": GLOBAL}),
        entry(put(), table=b"t"),
    ]
    found = reasons(batch_of(*entries), FilterRules(SOURCE, PEER_CLUSTER, tables))
    assert [reason is Reason.DELETED for reason in found] == [True, False, False, False, True, False, False]
    assert found[-2:] == [Reason.SHIPPED, Reason.SHIPPED]

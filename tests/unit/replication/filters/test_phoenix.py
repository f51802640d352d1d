"""A peer with Phoenix's SystemCatalogWALEntryFilter gets of Phoenix's catalog what belongs to tenants, as the class decides."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.hbase.wal.encoder import DELETE_FAMILY, PUT, Cell
from tests.unit.replication.filters.test_entry_filter import RULES, batch_of, entry, reasons, request_of
from walferry.base.protos import hbase_pb2 as pb
from walferry.replication.filters.rules import FilterRules, PeerTables, Reason
from walferry.replication.peers.reading import as_peer
from walferry.replication.peers.settings import CUSTOM_FILTERS, SYSTEM_CATALOG_FILTER

TENANTS = replace(RULES, tables=PeerTables(tenants_only=True))
CATALOGS, LINKS = (b"SYSTEM.CATALOG", b"SYSTEM:CATALOG"), (b"SYSTEM.CHILD_LINK", b"SYSTEM:CHILD_LINK")
GLOBAL = {b"0": pb.REPLICATION_SCOPE_GLOBAL}


def row(*parts: bytes) -> bytes:
    return b"\0".join(parts)


def cell(row: bytes, qualifier: bytes = b"", value: bytes = b"", kind: int = PUT) -> Cell:
    return Cell(row, b"0", qualifier, 1, kind, value, b"")


def passes(table: bytes, *cells: Cell) -> list[bool]:
    """Return of each cell whether it is shipped. Together and alone the filter decides the same."""
    alone = [reasons(batch_of(entry(each, table=table, scopes=GLOBAL)), TENANTS) == [Reason.SHIPPED] for each in cells]
    _, together = request_of(batch_of(entry(*cells, table=table, scopes=GLOBAL)), TENANTS)
    assert together == b"".join(each.encode() for each, shipped in zip(cells, alone, strict=True) if shipped)
    return alone


def as_in_java(table: bytes, cell: Cell) -> bool:
    """The class, line by line: SystemCatalogWALEntryFilter.filterCell."""
    if table not in CATALOGS + LINKS or cell.row[0] != 0:
        return True
    if table in CATALOGS:
        return False
    link = (cell.qualifier == b"LINK_TYPE" and cell.value == b"\4") or cell.type == DELETE_FAMILY
    return link and len([*cell.row.split(b"\0"), b"", b"", b"", b""][3]) > 0


@pytest.mark.parametrize("table", CATALOGS)
def test_of_the_catalog_tenants_rows_are_shipped_and_no_others(table: bytes) -> None:
    tenants = cell(row(b"1234567", b"S", b"VIEW", b"COLUMN", b"0"), b"DATA_TYPE", b"x")
    others = cell(row(b"", b"S", b"VIEW", b"COLUMN", b"0"), b"DATA_TYPE", b"x")
    link = cell(row(b"", b"", b"TABLE", b"1234567", b"S.VIEW"), b"LINK_TYPE", b"\4")
    assert passes(table, others, tenants, link, cell(b"")) == [False, True, False, False]
    assert reasons(batch_of(entry(others, table=table, scopes=GLOBAL)), TENANTS) == [Reason.NOT_OF_TENANT]


@pytest.mark.parametrize("table", LINKS)
def test_of_the_child_links_those_of_tenants_and_to_their_views_are_shipped(table: bytes) -> None:
    to_tenants, to_others = row(b"", b"", b"TABLE", b"1234567", b"S.VIEW"), row(b"", b"", b"TABLE", b"", b"S.VIEW")
    cells = {
        cell(row(b"1234567", b"S", b"VIEW", b"", b"T"), b"LINK_TYPE", b"\3"): True,
        cell(to_tenants, b"LINK_TYPE", b"\4"): True,
        cell(to_tenants, b"LINK_TYPE", b"\3"): False,
        cell(to_tenants, b"LINK_TYPE", b"\4\4"): False,
        cell(to_tenants, b"LINK_TYPE", b""): False,
        cell(to_tenants, b"LINK_TYPES", b"\4"): False,
        cell(to_tenants, b"_0", b"x"): False,
        cell(to_tenants, kind=DELETE_FAMILY): True,
        cell(to_others, b"LINK_TYPE", b"\4"): False,
        cell(to_others, kind=DELETE_FAMILY): False,
        cell(b"\0\0TABLE", kind=DELETE_FAMILY): False,
    }
    assert dict(zip(cells, passes(table, *cells), strict=True)) == cells


def test_other_tables_are_shipped_whole_and_without_the_filter_so_is_the_catalog() -> None:
    owned_by_none = cell(row(b"", b"S", b"VIEW", b"", b""), b"x", b"y")
    assert passes(b"SYSTEM.SEQUENCE", owned_by_none) == [True]
    assert passes(b"ns:SYSTEM.CATALOG", owned_by_none) == [True]
    batch = batch_of(entry(owned_by_none, table=CATALOGS[0], scopes=GLOBAL))
    assert reasons(batch, RULES) == [Reason.SHIPPED]


rows = st.lists(st.sampled_from([b"\0", b"\0", b"a", b"1234567"]), min_size=1, max_size=9).map(b"".join)
kinds = st.sampled_from([PUT, PUT, DELETE_FAMILY])
cells = st.builds(cell, rows, st.sampled_from([b"LINK_TYPE", b"_0"]), st.sampled_from([b"\4", b"\3", b""]), kinds)


@given(st.sampled_from([*CATALOGS, *LINKS, b"T"]), st.lists(cells, min_size=1, max_size=5))
def test_it_decides_as_phoenix_does(table: bytes, cells: list[Cell]) -> None:
    assert passes(table, *cells) == [as_in_java(table, each) for each in cells]


def rules_with(filters: str) -> FilterRules:
    message = pb.ReplicationPeer(clusterkey="h:2181:/hbase", replicate_all=True)
    message.configuration.add(name=CUSTOM_FILTERS.key, value=filters)
    return FilterRules.of_peer(as_peer("p", message, "DISABLED", "/peers/p"), RULES.source_id, RULES.peer_cluster_id)


@pytest.mark.parametrize(("filters", "only"), [(SYSTEM_CATALOG_FILTER, True), (f" {SYSTEM_CATALOG_FILTER} ,", True), ("", False)])
def test_the_peers_configuration_names_the_filter(filters: str, only: bool) -> None:
    assert rules_with(filters).tables.tenants_only is only

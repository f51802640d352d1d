"""Chooses rows of Phoenix's catalog that belong to a tenant, as Phoenix's SystemCatalogWALEntryFilter does.

    row = tenant 0x00 schema 0x00 table 0x00 column 0x00 family              any part may be empty

Each cluster changes the schemas of its tables itself, as in an upgrade of Phoenix, so they must not be replicated. Views of
tenants must be. So of SYSTEM.CATALOG a peer with this filter gets the rows that begin with a tenant. Of SYSTEM.CHILD_LINK it
gets these too, and the links from a table to a tenant's view, whose column is the tenant. It gets every other table whole.

Source: Phoenix's SystemCatalogWALEntryFilter, SchemaUtil, PTable.LinkType (5.2).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from walferry.base.kernels.compiled import inlined
from walferry.base.kernels.read import read_uint8, same_bytes
from walferry.base.kernels.types import Bytes
from walferry.hbase.wal.cells import KEY_TAIL, CellType, family_of, row_of, tags_start, value_start
from walferry.replication.filters.rules import Catalog

_COLUMN: Final = 3  # the parts before it
_LINK_TYPE: Final = np.frombuffer(b"LINK_TYPE", np.uint8)
_LINK_TYPE_BYTES: Final = len(_LINK_TYPE)
_CHILD_TABLE: Final = 4
_DELETE_FAMILY: Final[int] = CellType.DELETE_FAMILY.value


@inlined
def _has_column(buf: Bytes, row: int, length: int) -> bool:
    """Return whether the part of a row for a column is not empty."""
    parts = 0
    for pos in range(row, row + length):
        if parts == _COLUMN:
            return read_uint8(buf, pos) != 0
        if read_uint8(buf, pos) == 0:
            parts += 1
    return False


@inlined
def _links_child(buf: Bytes, pos: int) -> bool:
    """Return whether the cell at `pos` says that a row is a link to a child, or deletes the row."""
    if read_uint8(buf, value_start(buf, pos) - 1) == _DELETE_FAMILY:
        return True
    family, family_len = family_of(buf, pos)
    qualifier, value = family + family_len, value_start(buf, pos)
    if value - KEY_TAIL - qualifier != _LINK_TYPE_BYTES or not same_bytes(buf, qualifier, _LINK_TYPE, 0, _LINK_TYPE_BYTES):
        return False
    return tags_start(buf, pos) - value == 1 and read_uint8(buf, value) == _CHILD_TABLE


@inlined
def is_of_tenant(buf: Bytes, pos: int, catalog: int) -> bool:
    """Return whether the filter lets the cell at `pos` of this table pass."""
    if catalog == Catalog.NEITHER:
        return True
    row, length = row_of(buf, pos)
    if length > 0 and read_uint8(buf, row) != 0:
        return True
    return catalog == Catalog.CHILD_LINK and _links_child(buf, pos) and _has_column(buf, row, length)

"""Which tables' regions a pass closes."""

from __future__ import annotations

import pytest

from tests.unit.master.looks import A, Site
from walferry.hbase.tables.regions import META_REGION
from walferry.master import tables
from walferry.master.catalog import META_INFO
from walferry.master.decide import Region
from walferry.master.reconcile import Known
from walferry.master.tables import StoredState, TableState
from walferry.master.znodes import META_ENCODED_NAME


@pytest.mark.parametrize("state", [TableState.DISABLING, TableState.DISABLED])
def test_hbase_meta_is_never_closed_whatever_the_znode_of_its_table_says(state: TableState) -> None:
    site = Site()
    site.online[A].add(META_ENCODED_NAME)
    site.regions[META_ENCODED_NAME] = Region(META_REGION, None, None, frozenset({A}), True, A, 0.0, True)
    site.catalog[META_ENCODED_NAME] = Known(META_REGION, META_INFO, A, True)
    states = {"hbase:meta": StoredState(state, 0)}
    nothing = None  # no write is made, and no server is asked
    begun, reported = tables.advance(site.look().view, states, nothing, nothing, nothing, nothing)  # type: ignore[arg-type]
    assert (list(begun), reported) == ([], {})

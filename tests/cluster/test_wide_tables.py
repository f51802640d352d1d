"""Tables with very many replicated families: HBase writes the scopes of all of them into each entry of the WAL."""

from __future__ import annotations

import pytest

from embedded import wire
from embedded.client import GLOBAL
from tests.cluster.walferry_runs import ship
from walferry.engine.summary import Status

pytestmark = pytest.mark.timeout(600)
FAMILIES = 1100


def test_a_put_into_a_table_of_many_families_arrives_and_stops_nobody(sides, both, unique, peer) -> None:
    wide = both({f"f{i}": GLOBAL for i in range(FAMILIES)})
    other = both({"f": GLOBAL})
    for table, family in ((wide, "f7"), (other, "f")):
        sides.source.write(table, [wire.put("a", {f"{family}:q": b"1"})])
    summaries = ship(sides.at, peer, deadline=300)
    print([(each.status, each.error) for each in summaries])
    assert {each.status for each in summaries} == {Status.DONE}
    assert [sides.peer_cluster.count_rows(table) for table in (wide, other)] == [1, 1]

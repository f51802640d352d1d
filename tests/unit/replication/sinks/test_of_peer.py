"""A target that takes cells gets no bulk loads, labels and odd names: its queue stops there, or leaves them out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.replication.sinks.hbase.test_bulk_loads import OFF, ON, RULES, SKIP, batch_of, entry, load, put
from walferry.hbase.wal.wal_batches import WalBatch
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.filters.rules import Reason
from walferry.replication.sinks.errors import OnlyCells
from walferry.replication.sinks.of_peer import check_only_cells
from walferry.replication.source.cluster import SourceCluster


def checked(batch: WalBatch, source: SourceCluster) -> tuple[list[str], dict[str, int], list[Reason]]:
    kept = filter_batch(batch, RULES, "wal")
    let_go, tables = check_only_cells(batch, kept, RULES, source, "wal")
    return let_go, tables, [Reason(reason) for reason in kept.reason]


@pytest.mark.parametrize("source", [ON, OFF])
def test_a_bulk_load_stops_the_queue_before_it_with_what_helps(source: SourceCluster) -> None:
    batch = batch_of(entry(put()), load())
    with pytest.raises(OnlyCells, match="skip_bulk_loads in the source's connection leaves such out") as refused:
        checked(batch, source)
    assert refused.value.offset == batch.positions[1]


@pytest.mark.parametrize("source", [SKIP, replace(ON, skip_bulk_loads=True)])
def test_bulk_loads_are_left_out_also_if_other_peers_get_theirs(source: SourceCluster) -> None:
    assert checked(batch_of(entry(put()), load()), source) == ([], {"t": 0}, [Reason.SHIPPED, Reason.BULK_LOAD])


@pytest.mark.parametrize("source", [ON, OFF])
def test_files_of_loads_that_the_peer_does_not_get_are_let_go(source: SourceCluster) -> None:
    assert checked(batch_of(load(scopes={})), source) == (["one_SeqId_7_"], {}, [Reason.BULK_LOAD])


def test_a_name_that_no_table_can_have_stops_the_queue() -> None:
    with pytest.raises(OnlyCells, match=r"t/\.\. is not the name of a table"):
        checked(batch_of(entry(put(), table=b"t/..")), OFF)

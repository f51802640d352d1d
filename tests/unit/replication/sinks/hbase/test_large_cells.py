"""A cell that is larger than the peer cluster takes: the error says which one, and the run goes on as before."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.replication.sinks.hbase.edits import shipment_of
from tests.unit.replication.sinks.hbase.scripted_peer_cluster import ScriptedPeerCluster
from tests.unit.replication.sinks.hbase.test_direct import halves, rows, ship
from tests.unit.replication.sinks.hbase.test_replicate import Time
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.errors import CellTooLarge, RemoteError, remote_error
from walferry.replication.peers.settings import SinkKind
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.errors import CellRefused
from walferry.replication.sinks.hbase.sink import ShipmentSender, Transport

FINAL = "org.apache.hadoop.hbase.DoNotRetryIOException"
REFUSED = f"{FINAL} Cell[row1/f:q/1/Put/vlen=90/seqid=0] with size 130 exceeds limit of 100 bytes"
LONG = f"{FINAL} Cell[" + r"\x00" * 8000
OF_A_SINK = (
    "java.io.IOException: java.lang.IllegalArgumentException: KeyValue size too large\n\tat x\n"
    "Caused by: java.lang.IllegalArgumentException: KeyValue size too large\n\tat y"
)


def refusal(text: str, class_name: str = FINAL) -> RemoteError:
    return remote_error("rs:1", pb.ExceptionResponse(exception_class_name=class_name, stack_trace=text))


@pytest.mark.parametrize(
    ("text", "class_name", "limit"),
    [
        (REFUSED.replace(" ", ": ", 1) + "\n\tat x", FINAL, 100),
        (LONG.replace(" ", ": ", 1), FINAL, None),
        (f"java.io.IOException: failed\n\tat x\nCaused by: {REFUSED.replace(' ', ': ', 1)}\n\tat y", "java.io.IOException", 100),
        (OF_A_SINK, "java.io.IOException", None),
    ],
    ids=["of a region", "with a long row", "passed on by a sink", "of a sink's own client"],
)
def test_each_way_to_refuse_a_cell_is_known(text: str, class_name: str, limit: int | None) -> None:
    error = refusal(text, class_name)
    assert isinstance(error, CellTooLarge)
    assert (error.limit, error.do_not_retry) == (limit, True)
    assert str(error).isprintable()


def test_another_refusal_is_none() -> None:
    assert not isinstance(refusal("org.apache.hadoop.hbase.DoNotRetryIOException: Cells are refused"), CellTooLarge)


def test_a_cell_that_a_region_refuses_is_an_error_and_not_a_refusal_of_the_way() -> None:
    time, answers = Time(), Answers()
    with ScriptedPeerCluster(regions=halves(), judge=lambda region, row: REFUSED if row == b"b" else None) as peer_cluster:
        with pytest.raises(CellTooLarge):
            ship(peer_cluster, time, rows(b"a", b"b", b"z"), answers=answers)
        assert {row for _, row in peer_cluster.cells} == {b"a", b"z"}
    assert time.sleeps == []
    assert answers.outage is None


@pytest.mark.parametrize("kind", list(SinkKind))
def test_the_error_says_which_cell_it_is_and_the_sink_stays_as_it_is(kind: SinkKind, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(one: object, deadline: float) -> None:
        raise refusal(REFUSED.replace(" ", ": ", 1))

    two = entry(put(row=b"big\n\x1b", value=b"x" * 90), put(row=b"less", value=b"x" * 80), table=b"ns:t")
    shipments = [shipment_of([rows(b"small")]), shipment_of([two, rows(b"last")])]
    shipper: Any = SimpleNamespace(ship=refuse)
    way = Transport(kind)
    with caplog.at_level(logging.WARNING), pytest.raises(CellRefused) as refused:
        ShipmentSender(shipper, None, shipper, way).send(shipments, 0.0)  # type: ignore[arg-type]
    assert r"a cell of table ns:t, row big\x0A\x1B, has " in str(refused.value)
    assert "more than the 100 that it takes (hbase.server.keyvalue.maxsize" in str(refused.value)
    assert (way.kind, way.refused) == (kind, None)
    assert caplog.messages == []


def test_the_size_is_as_a_server_counts_it() -> None:
    cell = put(row=b"r", value=b"x" * 50)
    shipper: Any = SimpleNamespace(ship=lambda one, deadline: (_ for _ in ()).throw(refusal(OF_A_SINK, "java.io.IOException")))
    with pytest.raises(CellRefused, match=rf"has {len(cell.encode()):,} bytes, more than it takes"):
        ShipmentSender(shipper, None, shipper, Transport(SinkKind.REPLICATE)).send([shipment_of([entry(cell)])], 0.0)  # type: ignore[arg-type]

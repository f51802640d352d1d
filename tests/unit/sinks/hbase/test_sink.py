"""What a slave's refusal tells of the tables and families that it lacks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.filters.test_window import MARK, RULES, entry, put, window_of
from walferry.errors import WalferryError
from walferry.filters.window import filter_window
from walferry.rpc.errors import AccessDenied, ColumnFamilyNotFound, TableNotFound
from walferry.sinks.errors import NotAtSlave
from walferry.sinks.hbase.hfiles import BulkLoadFailed
from walferry.sinks.hbase.shipment import Shipment, assemble
from walferry.sinks.hbase.sink import ShipmentSender

NO_FAMILY = "Column family f does not exist in region t,,1.abc. in table 't'"


def shipment() -> Shipment:
    window = window_of(entry(put(), table=b"t"))
    return assemble(window, filter_window(window, RULES, "wal"), np.array([0]), MARK)


def refusal(error: WalferryError) -> WalferryError:
    """What a sender raises when the slave answers with `error`."""

    def ship(*_: Any) -> None:
        raise error

    shipper: Any = SimpleNamespace(ship=ship)
    hfiles: Any = None
    with pytest.raises(WalferryError) as raised:
        ShipmentSender(shipper, hfiles).send(shipment(), 0.0)
    return raised.value


def test_a_missing_table_is_named_and_the_text_is_the_answer_s():
    answer = TableNotFound("rs:1", "TableNotFoundException", "'t' was not found", True)
    raised = refusal(answer)
    assert isinstance(raised, NotAtSlave)
    assert (raised.table, raised.family) == ("t", None)
    assert str(raised) == str(answer)
    assert "hbase.replication.drop.on.deleted.table" in str(raised)


def test_a_missing_family_is_named_with_its_table():
    raised = refusal(ColumnFamilyNotFound("rs:1", "NoSuchColumnFamilyException", NO_FAMILY, True))
    assert isinstance(raised, NotAtSlave)
    assert (raised.table, raised.family) == ("t", "f")
    assert "hbase.replication.drop.on.deleted.columnfamily" in str(raised)


@pytest.mark.parametrize(
    "answer",
    [
        TableNotFound("rs:1", "TableNotFoundException", "no message", True),
        TableNotFound("rs:1", "TableNotFoundException", "'another' was not found", True),
        ColumnFamilyNotFound("rs:1", "NoSuchColumnFamilyException", "no message", True),
        ColumnFamilyNotFound("rs:1", "NoSuchColumnFamilyException", NO_FAMILY.replace("'t'", "'another'"), True),
        AccessDenied("rs:1", "AccessDeniedException", "'t'", True),
    ],
)
def test_an_answer_that_names_no_table_of_the_request_is_only_an_error(answer):
    assert refusal(answer) is answer


def test_a_bulk_load_into_a_missing_table_names_it_too():
    def fail(*_: Any) -> None:
        raise BulkLoadFailed("bulk load of t", str(answer), "") from answer

    answer = TableNotFound("rs:1", "TableNotFoundException", "'t' was not found", True)
    load: Any = SimpleNamespace(bulk_load="bulk load of t", entries=shipment().entries)
    hfiles: Any = SimpleNamespace(ship=fail)
    with pytest.raises(NotAtSlave, match="bulk load of t: rs:1: table t does not exist there") as raised:
        ShipmentSender(SimpleNamespace(ship=None), hfiles).send(load, 0.0)  # type: ignore[arg-type]
    assert raised.value.table == "t"

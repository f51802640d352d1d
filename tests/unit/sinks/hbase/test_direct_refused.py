"""A slave that does not let its regions be written to, or lacks a table or a family, is not asked again."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from tests.unit.rpc.fake_server import exception
from tests.unit.sinks.hbase.scripted_slave import ScriptedSlave
from tests.unit.sinks.hbase.test_direct import halves, rows, ship
from tests.unit.sinks.hbase.test_replicate import Time
from walferry.rpc.errors import ColumnFamilyNotFound, TableNotFound
from walferry.sinks.answers import Answers
from walferry.sinks.hbase.direct import DirectRefused

DENIED = "org.apache.hadoop.hbase.security.AccessDeniedException no WRITE on t"
NO_FAMILY = "a.NoSuchColumnFamilyException Column family f does not exist in region x in table 't'"


@pytest.mark.parametrize(
    "script",
    [
        {"judge": lambda region, row: DENIED},
        {"judge": lambda region, row: "org.apache.hadoop.hbase.DoNotRetryIOException no more of this"},
        {"judge": lambda region, row: "org.apache.hadoop.hbase.exceptions.FailedSanityCheckException too far in the future"},
        {"reply": lambda server, request: exception("java.lang.UnsupportedOperationException", "Multi")(request)},
        {"reply": lambda server, request: exception("a.AccessDeniedException", "no", do_not_retry=True)(request)},
    ],
    ids=["access", "not again", "sanity", "no such method", "the call"],
)
def test_a_slave_that_refuses_is_not_asked_again(script):
    time, answers = Time(), Answers()
    with ScriptedSlave(regions=halves(), **script) as slave:
        with pytest.raises(DirectRefused):
            ship(slave, time, rows(b"a"), answers=answers)
        assert len(slave.hosts[0].requests) == 1
    assert time.sleeps == []
    assert answers.outage is None


def test_a_slave_whose_meta_may_not_be_found_refuses():
    with ScriptedSlave(regions=halves()) as slave:

        def regions_of(table: str) -> Any:
            raise NoAuthError

        slave.regions_of = regions_of  # type: ignore[method-assign]
        with pytest.raises(DirectRefused, match="where hbase:meta is may not be read"):
            ship(slave, Time(), rows(b"a"))


def test_a_missing_family_is_named():
    with ScriptedSlave(regions=halves()) as slave:
        slave.judge = lambda region, row: NO_FAMILY
        with pytest.raises(ColumnFamilyNotFound) as error:
            ship(slave, Time(), rows(b"a"))
    assert (error.value.table, error.value.family) == ("t", "f")


def test_a_missing_table_is_named_before_anything_of_the_shipment_is_sent():
    with ScriptedSlave(regions=halves()) as slave:
        with pytest.raises(TableNotFound, match="table ns:gone does not exist there") as error:
            ship(slave, Time(), rows(b"a"), rows(b"a", table=b"ns:gone"))
        assert slave.multis == []
    assert error.value.table == "ns:gone"

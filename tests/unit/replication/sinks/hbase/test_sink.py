"""The way that a shipment takes to the peer cluster, and the tables and families that a peer cluster's refusal reports as
missing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.replication.filters.test_entry_filter import MARK, RULES, batch_of, entry, put
from walferry.base.errors import WalferryError
from walferry.hbase.rpc.errors import AccessDenied, ColumnFamilyNotFound, TableNotFound
from walferry.replication.filters.entry_filter import filter_batch
from walferry.replication.peers.settings import REQUEST_SINKS, SinkKind
from walferry.replication.sinks.errors import NotAtPeerCluster
from walferry.replication.sinks.hbase.actions import ShipmentUnfit
from walferry.replication.sinks.hbase.bulk_loads import BulkLoadFailed
from walferry.replication.sinks.hbase.direct import DirectRefused
from walferry.replication.sinks.hbase.shipment import Shipment, assemble
from walferry.replication.sinks.hbase.sink import ShipmentSender, Transport

NO_FAMILY = "Column family f does not exist in region t,,1.abc. in table 't'"
KINDS = list(REQUEST_SINKS)


def shipment() -> Shipment:
    batch = batch_of(entry(put(), table=b"t"))
    return assemble(batch, filter_batch(batch, RULES, "wal"), np.array([0]), MARK)


def fails(error: WalferryError | None) -> Any:
    """A shipper, or a sender of bulk loads, that raises `error`."""

    def ship(*_: Any) -> None:
        if error:
            raise error

    return SimpleNamespace(ship=ship)


def refusal(kind: SinkKind, error: WalferryError) -> WalferryError:
    """What a sender raises when the peer cluster answers with `error`."""
    by = {each: fails(error if each is kind else AssertionError()) for each in KINDS}
    hfiles: Any = None
    with pytest.raises(WalferryError) as raised:
        ShipmentSender(by[SinkKind.REPLICATE], hfiles, by[SinkKind.DIRECT], Transport(kind)).send([shipment()], 0.0)
    return raised.value


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_table_is_named_and_the_text_is_the_answer_s(kind):
    answer = TableNotFound("rs:1", "TableNotFoundException", "'t' was not found", True)
    raised = refusal(kind, answer)
    assert isinstance(raised, NotAtPeerCluster)
    assert (raised.table, raised.family) == ("t", None)
    assert str(raised) == str(answer)
    assert "hbase.replication.drop.on.deleted.table" in str(raised)


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_family_is_named_with_its_table(kind):
    raised = refusal(kind, ColumnFamilyNotFound("rs:1", "NoSuchColumnFamilyException", NO_FAMILY, True))
    assert isinstance(raised, NotAtPeerCluster)
    assert (raised.table, raised.family) == ("t", "f")
    assert "hbase.replication.drop.on.deleted.columnfamily" in str(raised)


@pytest.mark.parametrize("kind", KINDS)
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
def test_an_answer_that_names_no_table_of_the_request_is_only_an_error(kind, answer):
    assert refusal(kind, answer) is answer


@pytest.mark.parametrize("kind", KINDS)
def test_a_bulk_load_goes_by_replicate_and_a_missing_table_is_named_too(kind):
    def fail(ship: Callable[..., None], *_: Any) -> None:
        assert ship is replicate.ship
        raise BulkLoadFailed("bulk load of t", str(answer), "") from answer

    answer = TableNotFound("rs:1", "TableNotFoundException", "'t' was not found", True)
    load: Any = SimpleNamespace(bulk_load="bulk load of t", entries=shipment().entries)
    hfiles: Any = SimpleNamespace(ship=fail)
    replicate = fails(AssertionError())  # type: ignore[arg-type]
    with pytest.raises(NotAtPeerCluster, match="bulk load of t: rs:1: table t does not exist there") as raised:
        ShipmentSender(replicate, hfiles, fails(AssertionError()), Transport(kind)).send([load], 0.0)  # type: ignore[arg-type]
    assert raised.value.table == "t"


def test_a_peer_cluster_that_refuses_to_be_written_to_gets_the_same_shipment_and_all_others_to_replicate(caplog):
    shipped: list[tuple[str, Shipment]] = []

    class Direct:
        def ship(self, one: Shipment, deadline: float) -> None:
            shipped.append(("direct", one))
            raise DirectRefused("rs:1: AccessDeniedException: no WRITE on t")

    replicate: Any = SimpleNamespace(ship=lambda one, deadline: shipped.append(("replicate", one)))
    way, direct, first, second = Transport(SinkKind.DIRECT), Direct(), shipment(), shipment()
    senders = [ShipmentSender(replicate, None, direct, way) for _ in range(2)]  # type: ignore[arg-type]
    with caplog.at_level(logging.WARNING):
        senders[0].send([first], 0.0)
        senders[1].send([second], 0.0)
    assert [(how, id(one)) for how, one in shipped] == [
        ("direct", id(first)),
        ("replicate", id(first)),
        ("replicate", id(second)),
    ]
    assert (way.kind, way.refused) == (SinkKind.REPLICATE, "rs:1: AccessDeniedException: no WRITE on t")
    (said,) = caplog.messages
    assert "cannot be written to directly" in said
    assert "no WRITE on t" in said


def test_a_shipment_that_is_unfit_for_regions_goes_to_replicate_and_the_others_do_not(caplog):
    shipped: list[tuple[str, Shipment]] = []
    unfit, other = shipment(), shipment()

    class Direct:
        def ship(self, one: Shipment, deadline: float) -> None:
            if one is unfit:
                raise ShipmentUnfit("it has too many cluster ids")
            shipped.append(("direct", one))

    replicate: Any = SimpleNamespace(ship=lambda one, deadline: shipped.append(("replicate", one)))
    way = Transport(SinkKind.DIRECT)
    sender = ShipmentSender(replicate, None, Direct(), way)  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO):
        sender.send([unfit], 0.0)
        sender.send([other], 0.0)
    assert [(how, id(one)) for how, one in shipped] == [("replicate", id(unfit)), ("direct", id(other))]
    assert (way.kind, way.refused) == (SinkKind.DIRECT, None)
    assert caplog.messages == ["a shipment goes to the peer cluster's RegionServers to replicate: it has too many cluster ids"]


class Reported:
    """A direct shipper that refuses what `says` names an error for. `shipped` are the rows of what went each way."""

    def __init__(self, says: Callable[[Shipment], WalferryError | None] = lambda one: None) -> None:
        self.says = says
        self.shipped: list[tuple[str, int]] = []

    def ship(self, one: Shipment, deadline: float) -> None:
        if error := self.says(one):
            raise error
        self.shipped.append(("direct", one.row_count))

    def send(self, shipments: list[Shipment], kind: SinkKind = SinkKind.DIRECT) -> Transport:
        replicate: Any = SimpleNamespace(ship=lambda one, deadline: self.shipped.append(("replicate", one.row_count)))
        way = Transport(kind)
        ShipmentSender(replicate, None, self, way).send(shipments, 0.0)  # type: ignore[arg-type]
        return way


def test_shipments_that_follow_each_other_are_written_to_regions_as_one():
    reported = Reported()
    reported.send([shipment(), shipment(), shipment()])
    assert reported.shipped == [("direct", 3)]


def test_each_of_them_is_a_request_of_its_own_to_replicate():
    reported = Reported()
    reported.send([shipment(), shipment()], SinkKind.REPLICATE)
    assert reported.shipped == [("replicate", 1), ("replicate", 1)]


def test_a_peer_cluster_that_refuses_all_of_them_gets_each_to_replicate():
    reported = Reported(lambda one: DirectRefused("no"))
    way = reported.send([shipment(), shipment()])
    assert reported.shipped == [("replicate", 1), ("replicate", 1)]
    assert way.kind is SinkKind.REPLICATE


def test_of_several_only_the_one_that_is_unfit_for_regions_goes_to_replicate():
    unfit = shipment()
    reported = Reported(lambda one: ShipmentUnfit("it is") if any(cells is unfit.cells[0] for cells in one.cells) else None)
    reported.send([shipment(), unfit, shipment()])
    assert reported.shipped == [("direct", 1), ("replicate", 1), ("direct", 1)]


def test_the_table_that_one_of_them_needs_is_named():
    answer = TableNotFound("rs:1", "TableNotFoundException", "'t' was not found", True)
    batch = batch_of(entry(put(), table=b"other"))
    other = assemble(batch, filter_batch(batch, RULES, "wal"), np.array([0]), MARK)
    with pytest.raises(NotAtPeerCluster) as raised:
        Reported(lambda one: answer).send([other, shipment()])
    assert raised.value.table == "t"


def test_of_senders_that_are_refused_at_once_the_first_one_says_why(caplog):
    way = Transport(SinkKind.DIRECT)
    with caplog.at_level(logging.WARNING):
        way.fall_back("first")
        way.fall_back("second")
    assert (way.refused, len(caplog.messages)) == ("first", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_shipment_goes_the_way_that_was_asked_for_only(kind):
    shipped: list[SinkKind] = []
    by: Any = {each: SimpleNamespace(ship=lambda one, deadline, each=each: shipped.append(each)) for each in KINDS}
    way = Transport(kind)
    ShipmentSender(by[SinkKind.REPLICATE], None, by[SinkKind.DIRECT], way).send([shipment()], 0.0)  # type: ignore[arg-type]
    assert shipped == [kind]
    assert (way.kind, way.refused) == (kind, None)

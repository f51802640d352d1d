"""A peer cluster that does not let its regions be written to, or lacks a table or a family, is not asked again."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from tests.unit.hbase.rpc.fake_server import Request, answer, exception, silence
from tests.unit.hbase.wal.encoder import Cell
from tests.unit.replication.filters.test_entry_filter import entry
from tests.unit.replication.sinks.hbase.edits import shipment_of
from tests.unit.replication.sinks.hbase.multi_messages import MultiRequest
from tests.unit.replication.sinks.hbase.scripted_peer_cluster import OpenRegion, ScriptedPeerCluster
from tests.unit.replication.sinks.hbase.test_direct import halves, rows, ship, shipper
from tests.unit.replication.sinks.hbase.test_replicate import Time
from walferry.base.zk.right import Right, spare_seconds
from walferry.hbase.rpc import codec
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import ColumnFamilyNotFound, NotSecured, RemoteError, TableNotFound
from walferry.replication.peers.settings import SinkKind
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.sinks.hbase import direct as module
from walferry.replication.sinks.hbase.actions import ShipmentUnfit
from walferry.replication.sinks.hbase.direct import DirectRefused
from walferry.replication.sinks.hbase.sink import ShipmentSender, Transport

DENIED = "org.apache.hadoop.hbase.security.AccessDeniedException no WRITE on t"
NO_FAMILY = "a.NoSuchColumnFamilyException Column family f does not exist in region x in table 't'"


@pytest.mark.parametrize(
    "script",
    [
        {"judge": lambda region, row: DENIED},
        {"judge": lambda region, row: "org.apache.hadoop.hbase.DoNotRetryIOException no more of this"},
        {"reply": lambda server, request: exception("java.lang.UnsupportedOperationException", "Multi")(request)},
        {"reply": lambda server, request: exception("a.AccessDeniedException", "no", do_not_retry=True)(request)},
    ],
    ids=["access", "not again", "no such method", "the call"],
)
def test_a_peer_cluster_that_refuses_is_not_asked_again(script):
    time, answers = Time(), Answers()
    with ScriptedPeerCluster(regions=halves(), **script) as peer_cluster:
        with pytest.raises(DirectRefused):
            ship(peer_cluster, time, rows(b"a"), answers=answers)
        assert len(peer_cluster.hosts[0].requests) == 1
    assert time.sleeps == []
    assert answers.outage is None


def test_a_server_that_is_not_as_secured_as_the_others_may_be_passed_by(monkeypatch):
    """Others take its edits where the peer cluster sees replication, and bring them to it themselves."""
    time, answers = Time(), Answers()
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        stranger, connected = peer_cluster.name(1), Connection._connect_to

        def connect(self, *args):
            if self.server == f"{stranger.host}:{stranger.port}":
                raise NotSecured(self.server)
            return connected(self, *args)

        monkeypatch.setattr(Connection, "_connect_to", connect)
        with pytest.raises(DirectRefused, match="it says that it is not secured"):
            ship(peer_cluster, time, rows(b"a", b"z"), answers=answers)
    assert time.sleeps == []
    assert answers.outage is None


def test_an_edit_that_the_peer_cluster_takes_in_no_way_is_an_error_and_not_a_reason_to_send_it_in_another():
    time, answers = Time(), Answers()
    label = "org.apache.hadoop.hbase.exceptions.FailedSanityCheckException Invalid visibility label secret"
    with ScriptedPeerCluster(regions=halves(), judge=lambda region, row: label) as peer_cluster:
        with pytest.raises(RemoteError, match="FailedSanityCheckException: Invalid visibility label secret"):
            ship(peer_cluster, time, rows(b"a"), answers=answers)
        assert len(peer_cluster.multis) == 1
    assert time.sleeps == []
    assert answers.outage is None


def test_a_peer_cluster_whose_meta_may_not_be_found_refuses():
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:

        def regions_of(table: str) -> Any:
            raise NoAuthError

        peer_cluster.regions_of = regions_of  # type: ignore[method-assign]
        with pytest.raises(DirectRefused, match="where hbase:meta is may not be read"):
            ship(peer_cluster, Time(), rows(b"a"))


def test_a_missing_family_is_named():
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        peer_cluster.judge = lambda region, row: NO_FAMILY
        with pytest.raises(ColumnFamilyNotFound) as error:
            ship(peer_cluster, Time(), rows(b"a"))
    assert (error.value.table, error.value.family) == ("t", "f")


def test_a_missing_table_is_named_before_anything_of_the_shipment_is_sent():
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        with pytest.raises(TableNotFound, match="table ns:gone does not exist there") as error:
            ship(peer_cluster, Time(), rows(b"a"), rows(b"a", table=b"ns:gone"))
        assert peer_cluster.multis == []
    assert error.value.table == "ns:gone"


def test_a_peer_cluster_that_lacks_a_table_has_answered():
    time = Time()
    answers = Answers(time.clock, time.clock)
    answers.trying()
    answers.failed("connection refused")
    time.now += 60
    with ScriptedPeerCluster(regions=halves()) as peer_cluster, pytest.raises(TableNotFound):
        ship(peer_cluster, time, rows(b"a", table=b"gone"), answers=answers)
    assert answers.outage is None


def test_a_row_that_no_request_can_carry_makes_its_shipment_unfit(monkeypatch):
    monkeypatch.setattr(codec, "MAX_REQUEST_BYTES", 200)
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        with pytest.raises(ShipmentUnfit, match=r"a Multi request of .* nothing was sent"):
            ship(peer_cluster, Time(), rows(b"a", value=b"x" * 200))
        assert peer_cluster.multis == []


def at_most(actions: int) -> Callable[[int, Request], bytes | None]:
    """What a server answers that refuses requests with more actions (hbase.rpc.rows.size.threshold.reject)."""

    def reply(server: int, request: Request) -> bytes | None:
        asked = sum(len(group.action) for group in MultiRequest.FromString(request.param).regionAction)
        text = f"ServiceException: Rejecting large batch operation for current batch with firstRegionName: t,,1.x. , {asked}"
        return exception("java.io.IOException", text)(request) if asked > actions else None

    return reply


def test_a_peer_cluster_that_refuses_so_many_actions_gets_fewer_at_once_and_from_then_on(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 20)
    time, edits = Time(), [rows(*(b"%02d" % i for i in range(30)))]
    with ScriptedPeerCluster(servers=1, regions=[OpenRegion(b"t", b"", b"", 0)], reply=at_most(7)) as peer_cluster:
        direct = shipper(peer_cluster, time)
        direct.ship(shipment_of(edits), 2000)
        direct.ship(shipment_of(edits), 2000)
        direct.close()
        assert [len(cells) for cells in peer_cluster.cells.values()] == [2] * 30
        assert max(sum(len(group.action) for group in multi.regionAction) for _, multi in peer_cluster.multis) <= 7
    assert (time.sleeps, peer_cluster.lookups, direct.failed_batches) == ([], 1, 2)


def test_a_peer_cluster_that_is_sent_fewer_actions_gets_what_other_servers_take_once():
    def reply(server: int, request: Request) -> bytes | None:
        return at_most(1)(server, request) if server else None

    with ScriptedPeerCluster(regions=halves(), reply=reply) as peer_cluster:
        ship(peer_cluster, Time(), rows(b"a", b"b", b"x", b"y", b"z"))
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == dict.fromkeys(
            [b"a", b"b", b"x", b"y", b"z"], 1
        )


@pytest.mark.parametrize("limit", [0, 2])
def test_a_row_whose_actions_are_too_many_for_the_peer_cluster_makes_its_shipment_unfit(limit):
    row = entry(*(Cell(b"a", b"f", b"q", i, 4 if i % 2 else 8, b"") for i in range(8)))
    with ScriptedPeerCluster(regions=halves(), reply=at_most(limit)) as peer_cluster:
        direct = shipper(peer_cluster, Time())
        with pytest.raises(ShipmentUnfit, match="the peer cluster refuses a request of 8 actions that change one row"):
            direct.ship(shipment_of([row]), 2000)
        if limit:
            direct.ship(shipment_of([rows(b"a", b"b", b"c")]), 2000)
            assert len(peer_cluster.cells) == 3
        direct.close()


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"x' table users does not exist", "table x' table users does not exist does not exist there"),
        (b"t\x1b[2J\r2026-01-01 INFO all is well\n", "table t [2J 2026-01-01 INFO all is well  does not exist there"),
        (b"x" * 100_000, f"table {'x' * 200} does not exist there"),
    ],
    ids=["a message", "a terminal's", "long"],
)
def test_a_missing_table_is_known_by_its_exact_name_and_shown_as_one_short_line(name, shown):
    with ScriptedPeerCluster(regions=halves()) as peer_cluster, pytest.raises(TableNotFound) as error:
        ship(peer_cluster, Time(), rows(b"a", table=name))
    assert error.value.table == name.decode()
    assert str(error.value).startswith(f"peer cluster peer:2181:/hbase: {shown}. Create it there ")


def test_a_table_without_an_open_region_is_shown_as_one_short_line():
    name = b"t\x1b" + b"x" * 100_000
    with (
        ScriptedPeerCluster(regions=[OpenRegion(name, b"", b"", None)]) as peer_cluster,
        pytest.raises(PeerClusterUnreachable) as error,
    ):
        ship(peer_cluster, Time(), rows(b"a", table=name), deadline=1001)
    assert error.value.last_error == f"no server of the peer cluster has the region of row b'a' of table t {'x' * 198}"


def test_an_exception_that_cannot_be_read_does_not_undo_what_other_servers_did():
    broken = iter([b"\x0a\x05\x12\x03\x0a\x01\xff"])  # a class name that is not UTF-8

    def reply(server: int, request: Request) -> bytes | None:
        said = None if server else next(broken, None)
        return said and answer(request, said)

    with ScriptedPeerCluster(regions=halves(), reply=reply) as peer_cluster:
        ship(peer_cluster, Time(), rows(b"a", b"z"))
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == {b"a": 1, b"z": 1}
        assert peer_cluster.lookups > 1


@pytest.mark.parametrize("refusal", [DENIED, "java.io.IOException Rejecting large batch operation for current batch"])
def test_nothing_goes_another_way_while_a_call_may_still_come(refusal):
    """It would overwrite what follows."""
    time, reported = Time(), list[bool]()
    right = Right(clock=time.clock)
    replicate: Any = SimpleNamespace(ship=lambda shipment, deadline: reported.append(right.is_sure()))

    def reply(server: int, request: Request) -> bytes | None:
        return silence(request) if server == 0 else None

    with ScriptedPeerCluster(regions=halves(), reply=reply, judge=lambda region, row: refusal) as peer_cluster:
        direct = shipper(peer_cluster, time, right=right, call_timeout_seconds=0.5)
        sender = ShipmentSender(replicate, None, direct, Transport(SinkKind.DIRECT))  # type: ignore[arg-type]
        sender.send([shipment_of([rows(b"a", b"z")])], 2000)
        direct.close()
    assert reported == [False]
    time.now += 0.5 + spare_seconds(0.5)
    assert right.is_sure()

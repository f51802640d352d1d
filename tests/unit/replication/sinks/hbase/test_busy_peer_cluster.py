"""A peer cluster that is busy, or throttles us, is paced: it is not taken for one that is down."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.hbase.rpc.fake_server import FakeServer, answer, exception
from tests.unit.replication.sinks.hbase.multi_messages import MultiRequest
from tests.unit.replication.sinks.hbase.scripted_peer_cluster import OpenRegion, ScriptedPeerCluster
from tests.unit.replication.sinks.hbase.test_action_errors import error_of
from tests.unit.replication.sinks.hbase.test_direct import halves, latest_of, rows, ship
from tests.unit.replication.sinks.hbase.test_replicate import Shipment, Time, name, shipper
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.rpc.errors import remote_error
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.errors import PeerClusterUnreachable
from walferry.replication.sinks.hbase.action_errors import is_busy, is_throttled, seconds_to_wait

HBASE = "org.apache.hadoop.hbase."
THROTTLED = HBASE + "quotas.RpcThrottlingException write size limit exceeded - wait 10ms"
FULL = HBASE + "RegionTooBusyException over the memstore's limit"
BEHIND = f"java.io.IOException: {THROTTLED.replace(' ', ': ', 1)}: 1 time, servers with issues: rs2"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("number of requests exceeded - wait 10ms", 0.01),
        ("write size limit exceeded - wait 5sec, 20ms", 5.02),
        ("write size limit exceeded - wait 1mins, 2sec, 0ms", 62.0),
        ("request size limit exceeded - wait 1hr, 1min, 1sec, 1ms", 3661.001),
        ("read size limit exceeded - wait 10.00sec", 10.0),
        ("write size limit exceeded - wait 2mins, 3sec", 123.0),
        ("write size limit exceeded - wait ", None),
        ("write size limit exceeded", None),
        ("- wait 99999999999999999999999ms", None),
    ],
)
def test_how_long_to_wait_is_as_every_release_writes_it(text: str, seconds: float | None) -> None:
    error = error_of(HBASE + "quotas.RpcThrottlingException", text)
    assert is_throttled(error)
    assert seconds_to_wait(error) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("name", ["RegionTooBusyException", "CallQueueTooBigException", "CallDroppedException"])
def test_other_ways_to_be_busy(name: str) -> None:
    assert is_busy(error_of(HBASE + name))
    assert not is_throttled(error_of(HBASE + name))
    assert not is_busy(error_of(HBASE + "NotServingRegionException"))


def test_what_a_sink_could_not_pass_on_because_of_a_busy_server_is_busy_too() -> None:
    trace = f"java.io.IOException: failed\n\tat x\nCaused by: {THROTTLED.replace(' ', ': ', 1)}\n\tat y"
    assert is_busy(remote_error("rs:1", pb.ExceptionResponse(exception_class_name="java.io.IOException", stack_trace=trace)))


@pytest.mark.slow
@pytest.mark.parametrize(("says", "sleeps"), [(THROTTLED, [0.01] * 200), (FULL, [])])
def test_a_busy_region_is_written_to_as_soon_as_it_takes_that(says: str, sleeps: list[float]) -> None:
    time = Time()
    answers = Answers(time.clock, time.clock)
    reported: list[bool] = []

    def judge(region: OpenRegion, row: bytes) -> str | None:
        reported.append(answers.outage is None)
        return says if len(reported) <= 200 else None

    edits = [rows(b"a")]
    with ScriptedPeerCluster(regions=halves(), judge=judge) as peer_cluster:
        ship(peer_cluster, time, *edits, deadline=1e9, answers=answers, patience_seconds=1.0)
        assert peer_cluster.latest() == latest_of(edits)
        assert peer_cluster.lookups == 1
    assert all(reported), "it was called down"
    assert time.sleeps == sleeps or not sleeps


def test_a_peer_cluster_that_throttles_until_the_deadline_is_no_peer_cluster_that_is_down() -> None:
    time = Time()
    throttling = ScriptedPeerCluster(regions=halves(), judge=lambda region, row: THROTTLED)
    with throttling as peer_cluster, pytest.raises(PeerClusterUnreachable) as ended:
        ship(peer_cluster, time, rows(b"a"), deadline=1000.5, patience_seconds=0.1)
    assert ended.value.tries == 0, "then the group ends with its deadline"
    assert "RpcThrottlingException: write size limit exceeded - wait 10ms" in str(ended.value)
    assert sum(time.sleeps) == pytest.approx(0.5)


def test_a_request_that_asks_for_more_than_a_quota_ever_has_becomes_smaller() -> None:
    """A quota of 7 requests a second never lets 40 mutations through at once."""
    edits = [rows(*(b"%02d" % i for i in range(40)))]
    sizes: list[int] = []

    def reply(server: int, request: Any) -> bytes | None:
        sizes.append(sum(len(group.action) for group in MultiRequest.FromString(request.param).regionAction))
        if sizes[-1] <= 7:
            return None
        name, _, text = THROTTLED.partition(" ")
        return exception(name, f"{name}: {text}")(request)

    with ScriptedPeerCluster(regions=halves(0, 0), reply=reply) as peer_cluster:
        ship(peer_cluster, Time(), *edits, deadline=1e9, patience_seconds=1.0)
        assert peer_cluster.latest() == latest_of(edits)
    assert sizes[:2] == [40, 40], "the first time, the wait may be enough"
    assert max(sizes[4:]) <= 10
    assert len(sizes) < 40


@pytest.mark.parametrize("failure", [exception("java.io.IOException", BEHIND), exception(HBASE + "RegionTooBusyException", "x")])
def test_a_sink_behind_which_a_server_is_busy_gets_the_same_again(failure: Any) -> None:
    time = Time()
    answers = Answers(time.clock, time.clock)
    with FakeServer(*[failure] * 30, answer) as server:
        sender = shipper(name(server), time=time, answers=answers, patience_seconds=1.0)
        assert sender.ship(Shipment(), deadline=1e9) == name(server)
        sender.close()
    assert answers.outage is None
    assert len(time.sleeps) == 30

"""How long a sender goes on after failures, how it sleeps, when it stops, and its reports."""

import threading

import pytest

from tests.unit.hbase.rpc import fake_server
from tests.unit.hbase.rpc.fake_server import FakeServer, answer, exception, raw
from tests.unit.replication.sinks.hbase.test_replicate import Shipment, Time, closed_port, name, shipper
from walferry.hbase.rpc.errors import TableNotFound
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped
from walferry.replication.sinks.hbase.tries import SETTLE_SECONDS

ONE_TRY_SECONDS = 0.1

CUT_OFF = [fake_server.hang_up, fake_server.half_an_answer, raw(b"\x7f\xff\xff\xff"), raw(b"\x00\x00\x00\x01\x00\x00")]
REFUSED = [
    exception("java.io.IOException", "busy"),
    exception("org.apache.hadoop.hbase.CallQueueTooBigException", "full"),
    exception("org.apache.hadoop.hbase.regionserver.RegionServerStoppedException", "stopping"),
]


@pytest.mark.parametrize(
    ("failure", "settling"), [*((failure, [SETTLE_SECONDS]) for failure in CUT_OFF), *((failure, []) for failure in REFUSED)]
)
def test_passing_failures_are_tried_again_after_growing_sleeps(failure, settling):
    """A sink that has given no answer may still be at work, so nothing newer follows at once."""
    time = Time()
    with FakeServer(failure, failure, failure, answer) as server:
        ship = shipper(name(server), time=time)
        assert ship.ship(Shipment(), deadline=2000) == name(server)
        ship.close()
    assert time.sleeps == [1.0, 2.0, 3.0, *settling]
    assert len(server.requests) == 4
    assert ship.failed_batches == 3


def test_a_slow_server_is_given_more_time_at_each_try():
    time = Time()
    with FakeServer(fake_server.silence, fake_server.silence, answer) as server:
        ship = shipper(name(server), time=time, call_timeout_seconds=ONE_TRY_SECONDS)
        ship.ship(Shipment(), deadline=2000)
        ship.close()
    assert [(request.header.timeout + 99) // 100 for request in server.requests] == [1, 2, 3]  # what connecting leaves of them


def test_a_remote_exception_that_forbids_retries_is_raised_at_once():
    time = Time()
    missing = exception("org.apache.hadoop.hbase.TableNotFoundException", "'ns:t1'", do_not_retry=True)
    with FakeServer(missing) as server:
        ship = shipper(name(server), time=time)
        with pytest.raises(TableNotFound) as caught:
            ship.ship(Shipment(), deadline=2000)
        ship.close()
    assert caught.value.table == "ns:t1"
    assert len(server.requests) == 1
    assert time.sleeps == []


def test_a_peer_cluster_that_is_down_is_tried_until_the_deadline_and_then_named():
    time, dead = Time(), closed_port()
    ship = shipper(dead, time=time)
    with pytest.raises(PeerClusterUnreachable, match=r"has acknowledged nothing since .* UTC, until the deadline, in") as caught:
        ship.ship(Shipment(), deadline=1300)
    ship.close()
    assert time.now == 1300
    assert caught.value.peer_cluster == "peer:2181:/hbase"
    assert caught.value.tries == len(time.sleeps) == ship.failed_batches
    assert caught.value.tries > 20
    assert f"{dead.host}:{dead.port} failed" in caught.value.last_error
    assert "refused" in str(caught.value)
    assert "backlog is kept" in str(caught.value)


def test_a_deadline_that_has_passed_already_is_reported_as_such():
    with (
        FakeServer() as server,
        pytest.raises(PeerClusterUnreachable, match="in 0 tries; the last: none: the deadline had passed already"),
    ):
        shipper(name(server), time=Time()).ship(Shipment(), deadline=1000)


def test_no_sleep_goes_beyond_the_deadline():
    time = Time()
    with pytest.raises(PeerClusterUnreachable):
        shipper(closed_port(), time=time).ship(Shipment(), deadline=1002.5)
    assert time.sleeps == [1.0, 1.5]


def test_the_answers_are_told_of_each_try():
    time = Time()
    answers = Answers(time.clock, time.clock)
    with FakeServer(fake_server.hang_up, fake_server.hang_up, fake_server.hang_up, answer) as server:
        ship = shipper(name(server), time=time, answers=answers)
        wait, outages = ship._tries._wait, []

        def note(seconds: float) -> bool:
            outages.append(answers.outage)
            return wait(seconds)

        ship._tries._wait = note
        ship.ship(Shipment(), deadline=2000)
        ship.close()
    assert outages[0] is outages[1] is None  # a second is not an outage
    assert (outages[2].since, outages[2].tries) == (1000.0, 3)
    assert "closed the connection" in outages[2].error
    assert answers.outage is None


def test_a_refusal_counts_as_an_answer():
    time, missing = Time(), exception("org.apache.hadoop.hbase.TableNotFoundException", "'ns:t1'", do_not_retry=True)
    answers = Answers(time.clock, time.clock)
    with FakeServer(missing) as server, pytest.raises(TableNotFound):
        shipper(name(server), time=time, answers=answers).ship(Shipment(), deadline=2000)
    time.now += 100
    assert answers.outage is None


def test_being_told_to_stop_ends_the_sleeps():
    time = Time(stop=True)
    with pytest.raises(Stopped, match="refused"):
        shipper(closed_port(), time=time).ship(Shipment(), deadline=2000)
    assert len(time.sleeps) == 1


def test_nothing_is_sent_once_told_to_stop():
    stop = threading.Event()
    stop.set()
    with FakeServer() as server:
        with pytest.raises(Stopped):
            shipper(name(server), time=Time(), stop=stop).ship(Shipment(), deadline=2000)
        assert server.requests == []

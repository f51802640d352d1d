"""After the deadline a slave that works on a call keeps it, and one that answers nothing does not."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.unit.rpc.fake_server import FakeServer, Request, answer, silence
from tests.unit.sinks.hbase.test_replicate import Shipment, name
from walferry.hbase.peers import Peer
from walferry.sinks.errors import SlaveUnreachable
from walferry.sinks.hbase import slave as module
from walferry.sinks.hbase.slave import Slave
from walferry.source.knobs import Knobs
from walferry.zk.errors import ConnectError

PEER = Peer("2", "zk1:2181:/hbase", "DISABLED", {})


def busy(request: Request) -> bytes:
    """Silent only as to shipments."""
    return silence(request) if request.header.method_name == "ReplicateWALEntry" else answer(request)


@pytest.mark.parametrize(("behaviour", "ended"), [(busy, False), (silence, True)])
def test_the_call_of_a_server_that_answers_nothing_is_ended(monkeypatch, behaviour, ended):
    monkeypatch.setattr(module, "PING_SECONDS", 0.3)
    with FakeServer(behaviour) as server, ThreadPoolExecutor() as pool:
        stop = threading.Event()
        slave = Slave(PEER, Knobs(ratio=1.0), 0.0, user="u", stop=stop)
        monkeypatch.setattr(slave._sinks, "_list_servers", lambda: [name(server)])
        shipper = slave.shipper()
        call = pool.submit(shipper.ship, Shipment(), time.monotonic() + 0.2)
        while not server.requests:
            time.sleep(0.01)
        time.sleep(0.3)
        slave.look_after_calls(time.monotonic() - 1)
        if ended:
            with pytest.raises(SlaveUnreachable, match=r"in 1 try; the last: .* took the call and answers nothing else"):
                call.result(30)
        else:
            time.sleep(0.3)
            assert not call.done()
        stop.set()
        slave.interrupt()


def test_an_ensemble_that_is_away_is_an_outage_after_each_try_and_ends_at_the_deadline(monkeypatch):
    now, tried, said = [1000.0], [], []

    def connect(quorum, timeout, **options):
        tried.append(timeout)
        now[0] += timeout
        raise ConnectError(f"no ZooKeeper server of {quorum}: check {options['whose'].check}")

    class Stop(threading.Event):
        def wait(self, timeout=None):
            now[0] += timeout
            return False

    monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    slave = Slave(PEER, Knobs(), 1060.0, user=None, stop=Stop(), on_failure=lambda: said.append(now[0]))
    slave.answers._clock = lambda: now[0]
    with pytest.raises(SlaveUnreachable, match=r"in 5 tries; .* check the cluster key of peer 2, zk1:2181:/hbase"), slave:
        pass
    assert tried == [5.0, 10.0, 15.0, 20.0, 2.0]
    assert said == [1007.0, 1019.0, 1036.0, 1058.0]
    assert now[0] <= 1062.0
    outage = slave.answers.outage
    assert outage
    assert (outage.since, outage.tries) == (1000.0, 5)

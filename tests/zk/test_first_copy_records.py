"""What is known of a first copy: of the peer that is there now, until the copy is complete."""

from __future__ import annotations

from dataclasses import replace

from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from walferry.bootstrap.errors import CopyUnderWay
from walferry.bootstrap.records import Records, RegionRecord, Way, under_way
from walferry.shipping.leftovers import sweep_gone

DONE = RegionRecord(Way.FILES, files=2, bytes=10)


def test_a_peer_waits_from_the_begin_of_its_copy_to_its_end(zk: KazooClient, hbase: HBaseZNodes) -> None:
    session = session_of(zk, hbase)
    records = Records(session, "p")
    assert under_way(session, "p") is None
    state = records.begin("first run")
    error = under_way(session, "p")
    assert isinstance(error, CopyUnderWay)
    assert "peer p: its first copy, begun by run first run, is not complete" in str(error)
    records.begin_table("ns:t")
    records.put_region("ns:t", "r1", replace(DONE, way="", staging="file:/staging/token"))
    records.put_region("ns:t", "r1", DONE)
    assert records.begin("second run") == state
    assert records.has_begun("ns:t")
    assert not records.has_begun("t")
    assert records.names("ns:t") == ["r1"]
    assert records.regions("ns:t", ["r1", "r2"]) == {"r1": DONE}
    records.complete(replace(state, complete=True, tables=("ns:t",)))
    assert under_way(session, "p") is None
    assert not records.has_begun("ns:t")
    found = records.state()
    assert found is not None
    assert (found.complete, found.tables) == (True, ("ns:t",))


def test_what_an_earlier_peer_of_the_same_name_has_left_does_not_count(zk: KazooClient, hbase: HBaseZNodes) -> None:
    session = session_of(zk, hbase)
    records = Records(session, "p")
    records.begin("run")
    records.begin_table("t")
    records.put_region("t", "r1", DONE)
    zk.delete(hbase.nodes.peer("p"), recursive=True)
    hbase.add_peer("p")
    assert records.state() is None
    assert under_way(session, "p") is None
    records.begin("run")
    assert not records.has_begun("t")


def test_records_of_a_peer_that_is_gone_are_swept_and_those_of_others_stay(zk: KazooClient, hbase: HBaseZNodes) -> None:
    session = session_of(zk, hbase)
    hbase.add_peer("other")
    for peer in ("p", "other"):
        records = Records(session, peer)
        records.begin("run")
        records.begin_table("t")
        records.put_region("t", "r1", DONE)
    zk.delete(hbase.nodes.peer("p"), recursive=True)
    sweep_gone(session)
    assert zk.exists(session.own.first_copy("p")) is None
    assert Records(session, "other").names("t") == ["r1"]
    zk.set(session.own.first_copy("other"), b"{}")
    assert under_way(session, "other") is None, "a state that Walferry has not written stops the peer"

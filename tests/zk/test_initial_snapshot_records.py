"""Records of an initial snapshot belong to the present peer, until the copy is complete."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.copy_records import BEGUN, DONE, GROUP, OTHER, TABLE, writing
from tests.zk.hbase_znodes import SERVER, HBaseZNodes
from walferry.base.zk.records import decode, encode
from walferry.load.copy_records import Records, TableRecord, copied_before, under_way
from walferry.load.earlier_loads import initial_snapshots, loaded_before
from walferry.load.errors import CopyUnderWay, Overtaken
from walferry.load.records import Load, forget_finished, loads_of
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peers import read_peer
from walferry.replication.source.session import Session
from walferry.shipping.garbage_collection import collect_garbage_of_gone_peers


def test_a_peer_waits_from_the_begin_of_its_copy_to_its_end(zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster) -> None:
    session = session_of(zk, hbase)
    assert under_way(session, "p") is None
    with writing(session, at) as records:
        state = records.begin("first run")
        error = under_way(session, "p")
        assert isinstance(error, CopyUnderWay)
        assert "peer p: its initial snapshot, begun by run first run, is not complete" in str(error)
        records.begin_table("ns:t", TABLE)
        region = records.held("ns:t", "r1")
        region.put(BEGUN)
        region.check()
        region.put(DONE)
        assert records.begin("second run") == state
        assert records.table("ns:t") == TABLE
        assert records.table("t") is None
        assert records.names("ns:t") == ["r1"]
        found = records.regions("ns:t", ["r1", "r2"])
        assert {name: replace(record, by="") for name, record in found.items()} == {"r1": DONE}
        records.complete(replace(state, complete=True, tables=("ns:t",)))
    assert under_way(session, "p") is None
    assert records.table("ns:t") is None
    last = records.state()
    assert last is not None
    assert (last.complete, last.tables) == (True, ("ns:t",))


def test_what_an_earlier_peer_of_the_same_name_has_left_does_not_count(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    with writing(session, at) as records:
        records.begin("run")
        records.begin_table("t", TABLE)
        records.held("t", "r1").put(DONE)
        zk.delete(hbase.nodes.peer("p"), recursive=True)
        hbase.add_peer("p")
        assert records.state() is None
        assert under_way(session, "p") is None
        records.begin("run")
        assert records.table("t") is None


def test_records_of_a_peer_that_is_gone_are_swept_and_those_of_others_stay(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    hbase.add_peer("other")
    for peer in ("p", "other"):
        with writing(session, at, peer) as records:
            records.begin("run")
            records.begin_table("t", TABLE)
            records.held("t", "r1").put(DONE)
    zk.delete(hbase.nodes.peer("p"), recursive=True)
    collect_garbage_of_gone_peers(session)
    assert zk.exists(session.own.initial_snapshot("p")) is None
    assert Records(session, "other").names("t") == ["r1"]


@pytest.mark.parametrize("value", [b"[" * 200_000, b"\xff", b'{"added": "1", "run": "r"}', b'{"added": 1}'])
def test_a_peer_whose_copy_s_state_cannot_be_read_waits(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster, value: bytes
) -> None:
    session = session_of(zk, at)
    path = session.own.initial_snapshot("p")
    zk.create(path, value, makepath=True)
    error = under_way(session, "p")
    assert error is not None
    assert path in str(error)
    assert "is not the state of an initial snapshot" in str(error)
    # A new peer of this name has nothing to do with it, and a copy may begin anew.
    hbase.zk.delete(hbase.nodes.peer("p"), recursive=True)
    hbase.add_peer("p")
    assert under_way(session, "p") is None


OTHERS = 1_600_000_000_000  # WALs of other groups are older than a border if they were begun before


def copy_whole(session: Session, at: SourceCluster, *tables: str, run: str = "run", last: str = f"{GROUP}.5") -> None:
    """Copy tables completely, in a run that completes the copy."""
    with writing(session, at, run=run) as records:
        state = records.begin(run)
        record = TableRecord(
            "life",
            records.add_border(Load(run, {GROUP: last}, initial_snapshot=True, others_before=OTHERS)),
            whole=True,
            families=("f", "g"),
        )
        for table in tables:
            records.begin_table(table, record)
        records.complete(replace(state, complete=True))


def test_what_is_older_than_a_complete_copy_is_noted_for_whoever_ships_the_queue(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    copy_whole(session, at, "ns:t", "u")
    copied = {name: frozenset({b"f", b"g"}) for name in (b"ns:t", b"u")}
    for before in (initial_snapshots(session, "p"), loaded_before(session, read_peer(session, "p"), GROUP)):
        assert before.families(f"{GROUP}.5", initial_snapshot=True) == copied
        assert before.families(f"{GROUP}.6", initial_snapshot=True) == {}
        assert before.families(f"{GROUP}.5") == {}, "nothing is loaded of these WALs themselves"
    assert loaded_before(session, read_peer(session, "p"), OTHER).loads == []
    assert zk.get_children(session.own.initial_snapshot("p")) == ["+borders"]


def test_borders_of_several_runs_hold_each_for_its_tables_and_only_for_those_that_are_whole(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    with writing(session, at, run="killed") as records:
        records.begin("killed")
        first = TableRecord(
            "life", records.add_border(Load("killed", {GROUP: f"{GROUP}.3"}, initial_snapshot=True)), whole=True, families=("f",)
        )
        records.begin_table("copied by the first run", first)
        records.begin_table("given up", replace(first, whole=False))
    copy_whole(session, at, "t", run="other")
    before = initial_snapshots(session, "p")
    tables = [set(before.families(f"{GROUP}.{number}", initial_snapshot=True)) for number in (3, 4, 6)]
    assert tables == [{b"copied by the first run", b"t"}, {b"t"}, set()]


def test_a_run_that_is_killed_when_it_has_noted_borders_does_no_harm_and_the_next_one_notes_them_again(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    with writing(session, at) as records:
        state = records.begin("run")
        record = TableRecord(
            "life", records.add_border(Load("run", {GROUP: f"{GROUP}.3"}, initial_snapshot=True)), whole=True, families=("f",)
        )
        records.begin_table("t", record)
        records._note_borders("run")
        assert isinstance(under_way(session, "p"), CopyUnderWay)
        records.begin_table("u", record)
        records.complete(replace(state, complete=True))
    (load,) = loads_of(session, "p")
    assert dict(load.tables) == {"t": ("f",), "u": ("f",)}


def test_a_run_that_is_killed_before_it_has_noted_borders_has_not_completed_the_copy(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the queue would be shipped with edits that are older than the copy."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    session = session_of(zk, hbase)
    monkeypatch.setattr(Records, "_note_borders", killed)
    with pytest.raises(KeyboardInterrupt):
        copy_whole(session, at, "t")
    assert isinstance(under_way(session, "p"), CopyUnderWay)
    assert loads_of(session, "p") == []


def test_a_border_is_forgotten_when_no_older_wal_is_queued_and_not_before(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    older, _ = (hbase.add_wal(SERVER, "p", f"{GROUP}.{number}") for number in (5, 6))
    copy_whole(session, at, "t")
    forget_finished(session, "p")
    assert len(loads_of(session, "p")) == 1
    zk.delete(older)
    forget_finished(session, "p")
    assert loads_of(session, "p") == []


def test_a_run_that_was_overtaken_notes_no_border(zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster) -> None:
    session = session_of(zk, hbase)
    with writing(session, at, run="paused") as paused:
        state = paused.begin("paused")
        record = TableRecord(
            "life", paused.add_border(Load("paused", {GROUP: f"{GROUP}.3"}, initial_snapshot=True)), whole=True, families=("f",)
        )
        paused.begin_table("t", record)
        with writing(session, at, run="paused"), pytest.raises(Overtaken):
            paused.complete(replace(state, complete=True))
    assert loads_of(session, "p") == []


def test_a_border_stays_for_replays_when_the_queue_has_nothing_older_any_more(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    copy_whole(session, at, "t", "u")
    forget_finished(session, "p")
    assert loads_of(session, "p") == []
    with writing(session, at, run="given up") as records:  # a copy of another table, in the middle of which the run ends
        records.begin("given up")
        record = TableRecord("life", records.add_border(Load("given up", {GROUP: f"{GROUP}.8"}, initial_snapshot=True)))
        records.begin_table("v", record)
    old = copied_before(session, "p")
    both = {name: frozenset({b"f", b"g"}) for name in (b"t", b"u")}
    assert old.families(f"{GROUP}.5", initial_snapshot=True) == both
    assert old.families(f"{GROUP}.6", initial_snapshot=True) == {}
    assert old.families(f"{OTHER}.{OTHERS - 1}", initial_snapshot=True) == both, "its server died before the copy"
    assert old.families(f"{OTHER}.{OTHERS}", initial_snapshot=True) == {}


def test_a_table_that_is_copied_anew_has_the_border_of_its_last_copy(
    zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster
) -> None:
    session = session_of(zk, hbase)
    copy_whole(session, at, "t", "u")
    copy_whole(session, at, "t", run="again", last=f"{GROUP}.9")
    before = copied_before(session, "p")
    tables = [set(before.families(f"{GROUP}.{number}", initial_snapshot=True)) for number in (5, 9, 10)]
    assert tables == [{b"t", b"u"}, {b"t"}, set()]
    copy_whole(session, at, "u", run="once more", last=f"{GROUP}.9")
    assert len(zk.get_children(f"{session.own.initial_snapshot('p')}/+borders")) == 2, "one that holds for no table is deleted"


def test_borders_of_an_earlier_peer_of_the_same_name_do_not_count(zk: KazooClient, hbase: HBaseZNodes, at: SourceCluster) -> None:
    session = session_of(zk, hbase)
    copy_whole(session, at, "t")
    zk.delete(hbase.nodes.peer("p"), recursive=True)
    hbase.add_peer("p")
    assert copied_before(session, "p").loads == []
    copy_whole(session, at, "u")
    assert set(copied_before(session, "p").families(f"{GROUP}.5", initial_snapshot=True)) == {b"u"}
    assert len(zk.get_children(f"{session.own.initial_snapshot('p')}/+borders")) == 1


def test_a_border_survives_being_read(zk: KazooClient) -> None:
    load = Load("run", {GROUP: f"{GROUP}.3"}, done=True, tables={"t": ("f",)}, initial_snapshot=True, others_before=7)
    assert decode(Load, encode(load)) == load

"""A pass over a real ZooKeeper, and the status made from it: the valid znodes, and the invalid ones."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from embedded.zookeeper import ZooKeeperServer
from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, LastingZNodes, prefixed, wal
from tests.zk.test_retention import count_calls
from walferry.base.protos import hbase_pb2 as pb
from walferry.cli.show import fields_of
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.layout import QueueLayout, quoted
from walferry.hbase.names import ServerName
from walferry.hbase.values import PBUF
from walferry.master.states import RegionState
from walferry.master.znodes import encode_region
from walferry.observe.status import view as view_module
from walferry.observe.status.ages import Certainty
from walferry.observe.status.describing import describe
from walferry.observe.status.model import PeerStatus, SourceStatus
from walferry.observe.status.notes import RUNS_READ
from walferry.observe.status.view import MAX_PROBLEMS, MAX_REGIONS, view
from walferry.replication.locks.peer_lock import holding_peer
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import Session
from walferry.shipping.peer_down import note_down
from walferry.shipping.runs import begin_run, write_group

HOUR = 3_600_000
NOW = int(time.time() * 1000)  # about: a session of tests may last long
GROUP = SERVER.replace(",", "%2C")


def status_of(session: Session) -> SourceStatus:
    status = describe(view(session))
    json.dumps(status, default=fields_of)
    return status


def peer_of(session: Session, peer_id: str = "p") -> PeerStatus:
    return next(peer for peer in status_of(session).peers or () if peer.id == peer_id)


def test_a_source_with_live_dead_and_claimed_queues(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_peer("q", state="ENABLED", config={})
    hbase.add_wal(SERVER, "p", wal(NOW - 2 * HOUR), 500)
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    hbase.add_wal(DEAD, "p", wal(NOW - 3 * HOUR, DEAD))
    hbase.add_wal(SERVER, f"p-{OTHER}", wal(NOW - 4 * HOUR, OTHER))
    hbase.add_wal(SERVER, "gone", wal(NOW - HOUR))
    status = status_of(session)
    assert status.unreachable is None
    assert status.live_servers == (SERVER,)
    assert [(dead.name, dead.claimed) for dead in status.dead_servers or ()] == [(DEAD, False), (OTHER, True)]
    assert [queue.peer_id for queue in status.orphaned or ()] == ["gone"]
    assert (status.problems, status.regions_in_transition) == ((), None)
    p, q = status.peers or ()
    assert (p.id, p.state, p.managed, p.refusal, p.cluster_key) == ("p", "DISABLED", True, None, "127.0.0.1:2181:/peer_cluster")
    assert (q.id, q.state, q.managed, q.queues, q.sizeOfHFileRefsQueue) == ("q", "ENABLED", False, (), 0)
    assert [(queue.server, queue.queue_id, str(queue.kind)) for queue in p.queues or ()] == [
        (SERVER, "p", "Normal"),
        (SERVER, f"p-{OTHER}", "Recovered"),
        (DEAD, "p", "Normal"),
    ]
    assert (p.sizeOfLogQueue, p.wals_left) == (4, 3)
    assert p.replicationLag.ms == pytest.approx(time.time() * 1000 - (NOW - 4 * HOUR), abs=60_000)
    assert p.replicationLag.certainty is Certainty.AT_MOST
    (group,) = (p.queues or ())[0].groups
    assert (group.oldest.position, group.oldest.begun_ms) == (500, NOW - 2 * HOUR)


def test_who_holds_what(hbase: HBaseZNodes, session: Session, new_client: Callable[[], KazooClient], at: SourceCluster) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    assert peer_of(session).peer_lock is None
    with holding_peer(at, "p", "run 7", "batch 7", -1), acquire(session_of(new_client(), at), "p", GROUP, "task of batch 7"):
        found = peer_of(session)
        assert found.peer_lock is not None
        assert (found.peer_lock.name, found.peer_lock.run) == ("batch 7", "run 7")
        holder = (found.queues or ())[0].groups[0].holder
        assert holder is not None
        assert holder.name == "task of batch 7"
        assert holder.since.startswith("20")
    assert (peer_of(session).peer_lock, (peer_of(session).queues or ())[0].groups[0].holder) == (None, None)


def ran(session: Session, run: str, status: Status, error: str | None = None) -> int:
    begin_run(session, "p", run, 0)
    write_group(session, "p", run, GroupSummary(group=GROUP, status=status, error=error, shippedBytes=9))
    return int(session.zk.get(f"{session.own.runs('p')}/{quoted(run)}/{quoted(GROUP)}")[1].mtime)


def test_the_last_run_the_last_success_and_since_when_it_fails(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    ran(session, "scheduled__1", Status.DONE)
    success = ran(session, "scheduled__2", Status.DONE)
    first = ran(session, "scheduled__3", Status.FAILED, "a broken WAL")
    ran(session, "scheduled__4", Status.FAILED, "a broken WAL, still")
    last = ran(session, "manual__5/é", Status.RUNNING)
    found = peer_of(session)
    assert (found.error, found.failing_since_ms, found.last_success_ms) == ("a broken WAL, still", first, success)
    run = (found.queues or ())[0].groups[0].last_run
    assert run is not None
    assert (run.run_id, run.at_ms, run.status, run.shippedBytes) == ("manual__5/é", last, "running", 9)


def test_a_summary_that_tells_of_another_group_is_not_believed(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    ran(session, "run", Status.DONE)
    path = f"{session.own.runs('p')}/run/{quoted(GROUP)}"
    session.zk.set(path, GroupSummary(group="another", status=Status.DONE).to_json().encode())
    assert peer_of(session).last_success_ms is None
    (problem,) = status_of(session).problems
    assert problem.startswith(f"znode {path}: it is not a summary: it tells of another group, another. ")


def test_only_the_newest_runs_are_looked_at(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    ran(session, "success", Status.DONE)
    times = [ran(session, f"failure {number}", Status.FAILED) for number in range(RUNS_READ)]
    found = peer_of(session)
    assert (found.failing_since_ms, found.last_success_ms) == (times[0], None)


def test_a_peer_cluster_that_a_run_has_found_down(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    begin_run(session, "p", "run", 0)
    note_down(session, "p", "run", "peer cluster zk:2181:/hbase is away")
    assert peer_of(session).error == "peer cluster zk:2181:/hbase is away"
    for value in (b"?", b'{"run": {"time": 1e400, "error": "x"}}', b'{"run": {"time": ' + b"9" * 400 + b', "error": "x"}}'):
        session.zk.set(session.own.runs("p"), value)
        assert peer_of(session).error is None


def test_hfile_references_are_counted(hbase: HBaseZNodes, session: Session) -> None:
    for name in ("a", "b"):
        session.zk.create(f"{hbase.nodes.hfile_refs('p')}/{name}", makepath=True)
    assert peer_of(session).sizeOfHFileRefsQueue == 2


def test_regions_in_transition_of_hbase_1(hbase: HBaseZNodes, session: Session) -> None:
    encoded = "0123456789abcdef" * 2
    name = b"t,<b>,1." + encoded.encode() + b"."
    value = encode_region(name, RegionState.OPENING, ServerName.parse(SERVER))
    session.zk.create(hbase.nodes.region_in_transition(encoded), value, makepath=True)
    session.zk.create(hbase.nodes.region_in_transition("f" * 32), b"?")
    for number in range(MAX_REGIONS):
        session.zk.create(hbase.nodes.region_in_transition(f"{number:032x}f"[1:]), b"")
    status = status_of(session)
    assert status.regions_in_transition == MAX_REGIONS + 2
    found = [region for region in status.regions if region.encoded_name == encoded]
    assert len(status.problems) >= MAX_REGIONS - 1
    assert all(region.server == SERVER and region.state == "OPENING" for region in found)


HOSTILE = "<img src=x onerror=alert(1)>\u202e{{7*7}}"


def hostile_znodes(hbase: HBaseZNodes, session: Session) -> dict[str, str]:
    """Make znodes that HBase and Walferry never write. Returns the problem expected for each, by path."""
    nodes, own = hbase.nodes, session.own
    begin_run(session, "p", "run", 0)
    runs = f"{own.runs('p')}/run"
    values = {
        f"{nodes.rs}/not a server": (b"", "is not a server's name"),
        f"{nodes.queues}/lost+found": (b"", "HBase's log cleaner stops at it"),
        f"{nodes.queues}/{SERVER}/p-not-a-server": (b"", "queue id 'p-not-a-server'"),
        f"{nodes.queues}/{SERVER}/-": (b"", "has no peer id"),
        f"{nodes.queue(SERVER, 'p')}/{HOSTILE}": (b"", "is not a WAL's name"),
        f"{nodes.peers}/wrong": (b"\xff\xff\xff\xff\xff", "claims"),
        f"{nodes.peers}/wrong/peer-state": (b"", ""),
        f"{nodes.peers}/huge": (b"x" * 900_000, ""),
        f"{nodes.peers}/huge/peer-state": (b"PBUF\x08\x01", ""),
        f"{nodes.peers}/stateless": (
            prefixed(PBUF + pb.ReplicationPeer(clusterkey="a:1:/b").SerializeToString()),
            "no peer-state",
        ),
        f"{nodes.peers}/{HOSTILE}": (b"PBUF\xff", "no peer-state"),
        f"{runs}/{quoted(GROUP)}": (b'{"group": "' + GROUP.encode() + b'", "status": "done", "shippedOps": "<b>"}', "shippedOps"),
        f"{own.lease('p', GROUP)}": (b"[" * 1000, ""),
        f"{own.peer_lock('p')}": (b"\xff", ""),
    }
    for path, (value, _) in values.items():
        session.zk.ensure_path(path.rpartition("/")[0])
        session.zk.create(path, value)
    for right in (own.lease("p", GROUP), own.peer_lock("p")):
        session.zk.create(f"{right}/held")
    return {path: problem for path, (_, problem) in values.items() if problem}


def test_what_makes_no_sense_is_named_and_the_rest_is_shown(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - 2 * HOUR))
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    session.zk.set(hbase.nodes.wal(SERVER, "p", wal(NOW - 2 * HOUR)), b"not a position")
    expected = hostile_znodes(hbase, session)
    status = status_of(session)
    for path, problem in expected.items():
        shown = path.replace("\u202e", " ")
        assert any(shown in text and problem in text for text in status.problems), (path, problem, status.problems)
    assert all(text.isprintable() for text in status.problems)
    assert status.live_servers == (SERVER,)
    assert {peer.id: peer.state for peer in status.peers or ()} == {
        "p": "DISABLED", "wrong": None, "huge": "DISABLED", "stateless": None, HOSTILE: None,
    }  # fmt: skip
    assert len(json.dumps(status, default=fields_of)) < 50_000
    found = peer_of(session)
    (group,) = (found.queues or ())[0].groups
    assert group.sizeOfLogQueue == 2
    assert "is not a position" in (group.oldest.problem or "")
    assert found.replicationLag.certainty is Certainty.UNKNOWN
    assert group.holder is not None
    assert group.holder.name == "an unknown holder"
    assert group.last_run is None


def test_a_table_of_queues_that_does_not_answer_is_named_and_the_rest_is_shown(
    hbase: HBaseZNodes, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "TABLE_SECONDS", 1.0)
    dead = pb.MetaRegionServer(server=pb.ServerName(host_name="127.0.0.1", port=1, start_code=1))
    session.zk.create(hbase.nodes.meta_server, prefixed(PBUF + dead.SerializeToString()))
    began = time.monotonic()
    status = status_of(Session(replace(session.source, queue_layout=QueueLayout.TABLE), session.zk))
    assert time.monotonic() - began < 10
    assert any(
        "the scan of table hbase:replication has made no progress" in text and "127.0.0.1" in text for text in status.problems
    ), status.problems
    assert status.unreachable is None, "ZooKeeper has answered"
    assert status.live_servers == (SERVER,)
    assert {peer.id: peer.queues for peer in status.peers or ()} == {"p": None}


def test_very_many_problems_are_told_in_part(hbase: HBaseZNodes, session: Session) -> None:
    hbase.add_wal(SERVER, "p", wal(NOW - HOUR))
    for number in range(MAX_PROBLEMS + 5):
        session.zk.create(f"{hbase.nodes.queue(SERVER, 'p')}/junk {number} {'x' * 2000}")
    status = status_of(session)
    assert (len(status.problems), status.problems_left_out) == (MAX_PROBLEMS, 5)
    assert max(map(len, status.problems)) <= 1000


def test_a_cluster_without_queues_shows_its_servers_and_says_why(hbase: HBaseZNodes, session: Session) -> None:
    session.zk.delete(hbase.nodes.queues)
    session.zk.delete(hbase.nodes.peers, recursive=True)
    status = status_of(session)
    assert (status.live_servers, status.peers, status.dead_servers) == ((SERVER,), None, None)
    assert f"{hbase.nodes.queues} is not there" in status.problems[0]


def test_a_server_s_znode_of_another_layout_leaves_the_peers_to_be_seen(hbase: HBaseZNodes, session: Session) -> None:
    session.zk.ensure_path(f"{hbase.nodes.queues}/{SERVER}/lock")
    status = status_of(session)
    assert [(peer.id, peer.queues) for peer in status.peers or ()] == [("p", None)]
    assert "set queue_layout" in status.problems[0]


LARGE = [(40, 25), pytest.param((1000, 100), marks=[pytest.mark.soak, pytest.mark.timeout(900)])]


@pytest.mark.parametrize("size", LARGE, ids=lambda size: f"{size[0]} queues of {size[1]} WALs")
def test_a_pass_reads_few_positions_and_takes_little_time(
    size: tuple[int, int], new_client: Callable[[], KazooClient], zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are as many leases and summaries of runs as queues."""
    servers, wals = size
    zk = new_client()
    hbase = LastingZNodes.new(zk)
    hbase.add_peer("p")
    source = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///hbase", znode_parent=hbase.nodes.base, root=hbase.root)
    session = session_of(zk, source)
    fill(session, servers, wals)
    calls: Counter[str] = Counter()
    count_calls(zk, calls, monkeypatch)
    clock, cpu = time.monotonic(), time.process_time()
    seen = view(session)
    seconds, cores = time.monotonic() - clock, time.process_time() - cpu
    clock = time.monotonic()
    status = describe(seen)
    described = time.monotonic() - clock
    clock = time.monotonic()
    written = len(json.dumps(status, default=fields_of))
    as_json = time.monotonic() - clock
    reads = sum(calls.values())
    print(
        f"{servers:,} x {wals}: pass {seconds:.2f} s ({cores:.2f} s of a core), {reads:,} reads {dict(calls)}; "
        f"described in {described:.2f} s; {written:,} bytes of JSON in {as_json:.2f} s"
    )
    (peer,) = status.peers or ()
    assert (len(peer.queues or ()), peer.sizeOfLogQueue, status.problems) == (servers, servers * wals, ())
    assert all(group.last_run for queue in peer.queues or () for group in queue.groups)
    assert reads <= 7 * servers + 40
    assert cores < 0.5 + servers * wals / 40_000


def fill(session: Session, servers: int, wals: int) -> None:
    """Make queues with positions, leases and the notes of a run."""
    begin_run(session, "p", "run", 0)
    pending = []
    for number in range(servers):
        server = f"rs-{number:04}.example.org,16020,1700000000001"
        group = server.replace(",", "%2C")
        queue = session.nodes.queue(server, "p")
        made = [(f"{session.nodes.rs}/{server}", b""), (session.nodes.queue_server(server), b""), (queue, b"")]
        made += [(f"{queue}/{wal(NOW - HOUR + age, server)}", b"") for age in range(wals)]
        summary = GroupSummary(group=group, status=Status.DONE, peer_cluster="zk-1,zk-2,zk-3:2181:/hbase", shippedOps=123_456)
        made.append((f"{session.own.runs('p')}/run/{quoted(group)}", summary.to_json().encode()))
        session.zk.ensure_path(session.own.lease("p", group))
        pending += [session.zk.create_async(path, value) for path, value in made]
        if len(pending) > 2000:
            for each in pending:
                each.get()
            pending = []
    for each in pending:
        each.get()

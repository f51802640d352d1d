"""The ACLs of Walferry's znodes where there are logins: HBase can delete all znodes, a stranger can change none."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, Permissions, make_acl

from tests.zk.claim_cluster import ClaimCluster
from tests.zk.hbase_znodes import DEAD, LAYOUTS, SERVER, wal
from tests.zk.load_notes import note_folder
from tests.zk.secured_fixtures import HBASE, STRANGER, WALFERRY, Secured
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED, Login
from walferry.base.zk.client import connect, connected, disconnect
from walferry.base.zk.errors import NoAccess
from walferry.engine.bandwidth import limit_of
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.layout import OwnZNodes, QueueLayout, ZNodes
from walferry.hbase.names import ServerName
from walferry.hbase.values import PBUF
from walferry.load.copy_records import CopyWay, Records, RegionRecord, TableRecord
from walferry.load.fence import Claim as CopyClaim
from walferry.load.records import Folder, begin_load
from walferry.master.role import Candidate, acting_as_master
from walferry.master.tables import ABSENT, TableState, write_state
from walferry.master.transitions import Transition
from walferry.master.writes import Change
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.history import record_sample, sample_at
from walferry.replication.locks.peer_lock import holding_peer, turn_of
from walferry.replication.queues.claims.claim import claim
from walferry.replication.queues.lease import Lease, acquire
from walferry.replication.queues.new_wals import NewWalsStream
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.peer_state import disabled_guard
from walferry.replication.source.session import Session, open_session
from walferry.shipping.bulkload.load_note import LoadNote
from walferry.shipping.runs import begin_run, write_group

GROUP = wal(0, SERVER).rpartition(".")[0]
OWNERS = {
    # HBase's servers and Walferry are one user of ZooKeeper: kerberos.removeHostFromPrincipal and removeRealmFromPrincipal.
    "HBase's own user": (HBASE, [make_acl("sasl", "hbase", all=True)]),
    # Walferry is one of hbase.superuser.
    "a superuser": (WALFERRY, [make_acl("sasl", "walferry", all=True), make_acl("sasl", "hbase", all=True)]),
}


@pytest.fixture
def hbase_zk(secured: Secured) -> Iterator[KazooClient]:
    zk = connect(secured.kerberized.quorum, login=secured.kerberos(HBASE), session_timeout=60)
    yield zk
    disconnect(zk)


@pytest.fixture(params=OWNERS)
def owner(request: pytest.FixtureRequest, secured: Secured, hbase_zk: KazooClient) -> Login:
    """Walferry's login. Znodes that `hbase_zk` makes have the ACL that HBase gives its znodes in that set-up."""
    principal, hbase_zk.default_acl = OWNERS[request.param]
    return secured.kerberos(principal)


def znodes(zk: KazooClient, path: str) -> Iterator[str]:
    for name in zk.get_children(path):
        yield from znodes(zk, f"{path}/{name}")
    yield path


def source_of(at: ClaimCluster, secured: Secured, login: Login) -> SourceCluster:
    return SourceCluster(
        quorum=secured.kerberized.quorum, wal_root="file:///none", znode_parent=at.nodes.base, root=at.source.root,
        queue_layout=at.nodes.layout, login=login,
    )  # fmt: skip


@contextmanager
def whole_life(session: Session) -> Iterator[None]:
    """Make each znode that Walferry makes for a peer, including znodes that end with a session."""
    source = session.source
    claim(session, DEAD, "run", "run on a host")
    begin_run(session, "p", "run", 3600.0)
    write_group(session, "p", "run", GroupSummary(group=GROUP, status=Status.DONE))
    record_sample(session, "p", sample_at(1_800_000_000, Age(1, Certainty.EXACT), (2, 0), 3, 4))
    peer = SimpleNamespace(id="p", bandwidth=1000)
    with ExitStack() as stack:
        lease = stack.enter_context(_released(acquire(session, "p", GROUP, "run")))
        lease.register_position(wal(1, SERVER), 300)
        load = begin_load(session, "p", "load", [GROUP], lease)
        note_folder(session.zk, load, Folder("hdfs://peer:8020/staging/hbase__t__1k2", "t", b"t,,1.a.".hex()))
        limit = stack.enter_context(limit_of(peer, session, threading.Event()))
        stack.enter_context(limit.sending())
        limit.look()
        note = stack.enter_context(LoadNote(source, "p", "run"))
        note.tell("read 1 of 2")
        ours = stack.enter_context(holding_peer(source, "p", "run", "run", turn_of(session, "p", "run").number))
        records = Records(session, "p", CopyClaim(session, "p", ours, disabled_guard(session, "p").version))
        records.begin("run")
        records.begin_table("t", TableRecord("life"))
        records.held("t", "r1").put(RegionRecord(CopyWay.FILES, files=2, bytes=10))
        asyncio.run(_marked(source))
        yield


async def _marked(source: SourceCluster) -> None:
    async with NewWalsStream(source, "p", "key") as stream:
        assert await stream.commit({GROUP: 1})


@contextmanager
def _released(lease: Lease) -> Iterator[Lease]:
    try:
        yield lease
    finally:
        lease.release()


def check_closed(hbase_zk: KazooClient, secured: Secured, paths: list[str]) -> None:
    """Check that no one else can change, delete or add anything."""
    for path in paths:
        open_to = [entry for entry in hbase_zk.get_acls(path)[0] if entry.id.scheme == "world"]
        assert not any(entry.perms & ~Permissions.READ for entry in open_to), path
    for login in (secured.kerberos(STRANGER), UNSECURED):
        with connected(secured.kerberized.quorum, login=login) as stranger:
            for path in paths:
                for change in (
                    lambda path: stranger.set(path, b"x"),
                    lambda path: stranger.create(f"{path}/x"),
                    lambda path: stranger.set_acls(path, OPEN_ACL_UNSAFE),
                ):
                    with pytest.raises(NoAuthError):
                        change(path)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hbase_can_delete_all_that_a_peer_s_life_leaves_and_a_stranger_can_change_nothing(
    secured: Secured, hbase_zk: KazooClient, owner: Login, layout: QueueLayout
) -> None:
    at = ClaimCluster(hbase_zk, layout)
    with open_session(source_of(at, secured, owner)) as session, whole_life(session):
        ours = [*znodes(hbase_zk, at.source.root), *znodes(hbase_zk, at.nodes.queues)]
        made = {each.split("/")[2] for each in ours if each.startswith(f"{at.source.root}/")}
        assert made >= {
            "claims",
            "leases",
            "runs",
            "loads",
            "shipping",
            "loading",
            "peer-locks",
            "initial-snapshots",
            "cursors",
            "history",
        }
        check_closed(hbase_zk, secured, ours)
        for path in ours:
            assert sorted(hbase_zk.get_acls(path)[0]) == sorted(hbase_zk.default_acl), path
        # As HBase's master does it, whatever is still at work.
        for path in ours:
            hbase_zk.delete(path)
    assert not hbase_zk.exists(at.source.root)


def test_clients_read_what_hbase_lets_them_read_of_what_a_run_in_the_master_s_place_makes(
    secured: Secured, hbase_zk: KazooClient, owner: Login, tmp_path: Path
) -> None:
    (tmp_path / "hbase.id").write_bytes(PBUF + pb.ClusterId(cluster_id=str(uuid.uuid4())).SerializeToString())
    nodes = ZNodes(f"/hbase-{uuid.uuid4().hex[:8]}")
    own = OwnZNodes(f"/walferry{nodes.base[6:]}", nodes)
    hbase_zk.create(nodes.base, acl=[*hbase_zk.default_acl, *READ_ACL_UNSAFE])
    source = SourceCluster(
        quorum=secured.kerberized.quorum, wal_root=f"file://{tmp_path}", znode_parent=nodes.base, root=own.root, login=owner
    )
    server = ServerName("rs1.example.org", 16020, 1_700_000_000_001)
    region = b"t,,1700000000000.0123456789abcdef0123456789abcdef."
    with (
        open_session(source) as session,
        acting_as_master(session.zk, nodes, own, Candidate("a run", source.wal_root)) as role,
        connected(secured.kerberized.quorum) as client,
    ):
        role.writes.write(Change(Transition.CREATE_OFFLINE, region, None, server))
        write_state(nodes, role.lock, "t", ABSENT, TableState.DISABLING)
        ours = [*znodes(hbase_zk, nodes.base), *znodes(hbase_zk, own.root)]
        assert {nodes.master, nodes.hbaseid, nodes.rs, nodes.table("t"), nodes.in_transition} <= set(ours)
        check_closed(hbase_zk, secured, ours)
        for path in ours:
            if nodes.clients_read(path):
                client.get(path)
            else:
                with pytest.raises(NoAuthError):
                    client.get(path)
        for path in ours:
            hbase_zk.delete(path)


def test_where_hbase_s_znodes_belong_to_all_a_login_s_do_too(secured: Secured, hbase_zk: KazooClient) -> None:
    hbase_zk.default_acl = None
    at = ClaimCluster(hbase_zk, QueueLayout.HBASE2)
    with open_session(source_of(at, secured, secured.kerberos(WALFERRY))) as session:
        acquire(session, "p", GROUP, "run").release()
        assert hbase_zk.get_acls(at.source.root)[0] == [make_acl("world", "anyone", all=True)]
    hbase_zk.delete(at.source.root, recursive=True)


def test_a_user_whose_znodes_hbase_s_are_not_is_told_so_before_it_makes_any(secured: Secured, hbase_zk: KazooClient) -> None:
    hbase_zk.default_acl = [make_acl("sasl", "hbase", all=True)]
    at = ClaimCluster(hbase_zk, QueueLayout.HBASE2)
    source = source_of(at, secured, secured.kerberos(WALFERRY))
    reported = f"{at.nodes.queues} in ZooKeeper of the source cluster belongs to others"
    with pytest.raises(NoAccess, match=reported), open_session(source):
        pytest.fail("a stranger has a session")
    assert not hbase_zk.exists(at.source.root)


def test_without_znodes_of_hbase_what_a_login_makes_is_its_own(secured: Secured) -> None:
    source = SourceCluster(
        quorum=secured.kerberized.quorum, wal_root="file:///none", znode_parent="/none", login=secured.kerberos(WALFERRY)
    )
    with open_session(source) as session:
        session.zk.create("/alone", ephemeral=True)
        assert session.zk.get_acls("/alone")[0] == [make_acl("sasl", "walferry", all=True)]

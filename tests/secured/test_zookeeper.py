"""ZooKeeper of a real secured HBase: the znodes that Walferry makes under HBase's and its own, and that HBase can delete them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import Permissions

from embedded.client import JavaClient
from embedded.secured_site import SecuredSite
from tests.secured.logins import login
from tests.secured.peers import peer_with_nobody
from walferry.base.security.login import UNSECURED
from walferry.base.zk.client import children, connected
from walferry.base.zk.errors import NoAccess
from walferry.hbase.cluster import live_servers
from walferry.hbase.layout import ZNodes
from walferry.replication.queues.claims.claim import claim
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.lease import acquire
from walferry.replication.source.cluster import SourceCluster
from walferry.replication.source.session import open_session

DEAD = "rs-2.example.org,16020,1700000000002"
GROUP = "rs-2.example.org%2C16020%2C1700000000002"
# The users who own all of HBase's znodes: HBase's own principal, and one of hbase.superuser.
OWNERS = ("hbase/localhost", "walferry")


def tree(zk: KazooClient, path: str) -> Iterator[str]:
    for name in zk.get_children(path):
        yield from tree(zk, f"{path}/{name}")
    yield path


@pytest.fixture
def peer(source_site: SecuredSite, secured_java: Callable[[SecuredSite], JavaClient]) -> Iterator[str]:
    """A managed peer whose cluster is a name and an id under another parent of the same ensemble."""
    with peer_with_nobody(source_site, secured_java(source_site)) as peer_id:
        yield peer_id


@pytest.mark.parametrize("user", OWNERS)
def test_hbase_takes_away_with_its_peer_what_walferry_has_claimed_for_it(
    source_site: SecuredSite, secured_java: Callable[[SecuredSite], JavaClient], peer: str, user: str
) -> None:
    address, nodes = source_site.cluster.address, ZNodes()
    source = SourceCluster(
        quorum=address.quorum, wal_root=address.wal_root, znode_parent=nodes.base, root=f"/walferry-{user.partition('/')[0]}",
        login=login(source_site, user),
    )  # fmt: skip
    with connected(address.quorum, login=login(source_site, "hbase/localhost")) as hbase:
        hbase.default_acl = hbase.get_acls(nodes.queues)[0]
        for number in (1, 2):
            hbase.create(nodes.wal(DEAD, peer, f"{GROUP}.{number}"), makepath=True)
        with open_session(source) as session:
            assert live_servers(session.zk, nodes)
            assert claim(session, DEAD, "run", "run on a host").moved == 1
            lease = acquire(session, peer, GROUP, "run")
            lease.register_position(f"{GROUP}.1", 300)
            ours = [*tree(hbase, source.root), *tree(hbase, nodes.queue_server(WALFERRY_SERVER))]
            assert nodes.wal(WALFERRY_SERVER, f"{peer}-{DEAD}", f"{GROUP}.1") in ours
            for path in ours:
                acl = hbase.get_acls(path)[0]
                assert not [entry for entry in acl if entry.id.scheme == "world" and entry.perms & ~Permissions.READ], path
            with connected(address.quorum, login=login(source_site, "stranger")) as stranger:
                for path in ours:
                    with pytest.raises(NoAuthError):
                        stranger.set(path, b"")
            lease.release()
        secured_java(source_site).remove_peer(peer)
        assert children(hbase, nodes.queue(WALFERRY_SERVER, f"{peer}-{DEAD}")) is None
        hbase.delete(nodes.queue_server(WALFERRY_SERVER), recursive=True)
        hbase.delete(source.root, recursive=True)


@pytest.mark.parametrize("user", ["stranger", None])
def test_who_is_not_of_hbase_s_users_gets_no_session(source_site: SecuredSite, user: str | None) -> None:
    source = SourceCluster(
        quorum=source_site.cluster.address.quorum, wal_root=source_site.cluster.address.wal_root, root="/walferry-of-a-stranger",
        login=login(source_site, user) if user else UNSECURED,
    )  # fmt: skip
    if user:
        with pytest.raises(NoAccess, match="/hbase/replication/rs in ZooKeeper of the source cluster belongs to others"):
            open_session(source).__enter__()
    else:
        with open_session(source) as session, pytest.raises(NoAuthError):
            session.zk.get_children(session.nodes.queues)

"""A source gets the logins to its peer clusters before it travels to where no connections are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from walferry.base.security.login import Kerberos, Login, Tls, ZooKeeperAuth, ZooKeeperLogin
from walferry.replication.peers.reading import DISABLED, Peer
from walferry.replication.source.cluster import SourceCluster, SourceError
from walferry.replication.source.connection import from_connection, from_text
from walferry.replication.source.peer_logins import (
    PeerConnection,
    PeerLogins,
    peer_connection_from_env,
    peer_connection_from_text,
    with_logins_of,
)

KEY, OTHER = "zk1,zk2:2181:/hbase", "zk9:2181:/hbase"
OURS = Login(kerberos=Kerberos(principal="walferry@SOURCE", keytab="/k/source"))
THEIRS = Login(kerberos=Kerberos(principal="walferry@PEER", keytab="/k/peer_cluster", only_hosts=True))
SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase", login=OURS)
BY_KEY = replace(SOURCE, peer_conn_ids={"zk1:2181,zk2:2181:/hbase": "peer_cluster"})


def peer(cluster_key: str = KEY, conn_id: str = "") -> Peer:
    return Peer("p", cluster_key, DISABLED, {"walferry.peer_conn_id": conn_id})


class Connections:
    """Connections by their ids; counts how often each is read."""

    def __init__(self, connections: Mapping[str, PeerConnection | str]) -> None:
        self.connections = connections
        self.read: list[str] = []

    def __call__(self, conn_id: str) -> PeerConnection:
        self.read.append(conn_id)
        found = self.connections.get(conn_id, f"connection {conn_id!r} is not defined")
        if isinstance(found, str):
            raise SourceError(found)
        return found


def reading(source: SourceCluster, connections: Mapping[str, PeerConnection | str]) -> tuple[SourceCluster, Connections]:
    """The source where there are connections."""
    read = Connections(connections)
    return replace(source, peer_logins=PeerLogins(read)), read


def test_a_peer_s_own_connection_comes_before_that_of_its_cluster_key() -> None:
    source, _ = reading(BY_KEY, {"peer_cluster": PeerConnection(Login(user="by key")), "own": PeerConnection(THEIRS)})
    assert source.login_to(peer(conn_id="own")) == THEIRS
    assert source.login_to(peer()) == Login(user="by key")


def test_a_peer_cluster_without_a_connection_is_talked_to_as_the_source_is() -> None:
    source, read = reading(SOURCE, {})
    assert source.login_to(peer()) == OURS.for_peer_clusters()
    assert with_logins_of(source, [peer()]) == SOURCE
    assert not read.read


def test_the_source_s_password_for_zookeeper_goes_to_no_peer_cluster() -> None:
    auth = ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user="walferry", password_file="/p", tls=Tls(ca="/ca"))
    source = replace(SOURCE, login=replace(OURS, zookeeper=auth))
    assert source.login_to(peer()) == replace(OURS.for_peer_clusters(), zookeeper=ZooKeeperLogin(tls=Tls(ca="/ca")))


def test_cluster_keys_of_one_cluster_are_the_same_whatever_their_form() -> None:
    source, _ = reading(BY_KEY, {"peer_cluster": PeerConnection(THEIRS)})
    travelled = with_logins_of(source, [peer("zk2:2181,zk1:2181:2181:/hbase")])
    assert travelled.login_to(peer("zk2,zk1:2181:/hbase")) == THEIRS


def test_each_connection_is_read_once() -> None:
    source, read = reading(BY_KEY, {"peer_cluster": PeerConnection(THEIRS)})
    with_logins_of(source, [peer(), peer(conn_id="peer_cluster"), peer(OTHER, "peer_cluster"), peer(OTHER)])
    source.login_to(peer())
    assert read.read == ["peer_cluster"]


def test_a_missing_connection_stops_that_peer_alone() -> None:
    source, _ = reading(SOURCE, {})
    for cluster in (source, with_logins_of(source, [peer(conn_id="none"), peer(OTHER)])):
        assert cluster.login_to(peer(OTHER)) == OURS.for_peer_clusters()
        with pytest.raises(SourceError, match=f"the peer cluster {KEY} cannot be talked to: connection 'none' is not defined"):
            cluster.login_to(peer(conn_id="none"))


def test_a_connection_that_this_task_may_not_see_stops_that_peer_alone() -> None:
    def denied(conn_id: str) -> PeerConnection:
        """Raise as Airflow does for a connection of another team (AirflowSecretsBackendAccessDenied)."""
        raise PermissionError("the token eyJhbGciOi may not see it")

    source = replace(SOURCE, peer_logins=PeerLogins(denied))
    travelled = with_logins_of(source, [peer(conn_id="theirs"), peer(OTHER)])
    assert travelled.login_to(peer(OTHER)) == OURS.for_peer_clusters()
    with pytest.raises(SourceError, match=r"connection 'theirs' cannot be read: PermissionError$"):
        travelled.login_to(peer(conn_id="theirs"))


def test_a_connection_by_cluster_key_that_nobody_has_read_is_not_passed_over() -> None:
    with pytest.raises(
        SourceError, match=r"the peer cluster zk1,zk2:2181:/hbase has the connection 'peer_cluster', which was not read"
    ):
        BY_KEY.login_to(peer())


def test_a_connection_with_a_host_is_for_that_cluster_alone() -> None:
    source, _ = reading(SOURCE, {"peer_cluster": PeerConnection(THEIRS, "zk2:2181,zk1:2181", "/hbase")})
    assert source.login_at(KEY, "peer_cluster") == THEIRS
    with pytest.raises(SourceError, match="connection 'peer_cluster': host is zk2:2181,zk1:2181, which is another cluster"):
        source.login_at(OTHER, "peer_cluster")
    with pytest.raises(SourceError, match="extra's znode_parent is '/hbase', but the peer's is '/other'"):
        source.login_at("zk1,zk2:2181:/other", "peer_cluster")


def test_the_logins_travel_with_the_source() -> None:
    source, _ = reading(SOURCE, {"peer_cluster": PeerConnection(THEIRS)})
    there = SourceCluster.from_json(with_logins_of(source, [peer(conn_id="peer_cluster"), peer(OTHER, "none")]).to_json())
    assert there.login_to(peer(conn_id="peer_cluster")) == THEIRS
    with pytest.raises(SourceError, match="'none' is not defined"):
        there.login_to(peer(OTHER, "none"))


def test_a_peer_that_changes_after_the_logins_have_left_gets_no_login_for_another_cluster() -> None:
    source, _ = reading(SOURCE, {"peer_cluster": PeerConnection(THEIRS, "zk1:2181,zk2:2181")})
    there = SourceCluster.from_json(with_logins_of(source, [peer(conn_id="peer_cluster")]).to_json())
    with pytest.raises(SourceError, match="which was not read when this run began"):
        there.login_to(peer("evil:2181:/hbase", "peer_cluster"))


@pytest.mark.parametrize("conn_id", ["a b", "a\x1b[31m", "x" * 1000, "../airflow/smtp", "a/b", "a:b", ".", "ä"])
def test_what_a_peer_names_is_not_taken_for_an_id_if_it_cannot_be_one(conn_id: str) -> None:
    source, read = reading(SOURCE, {})
    with pytest.raises(SourceError, match="is not a connection's id") as error:
        source.login_to(peer(conn_id=conn_id))
    assert not read.read
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500


def test_connections_are_read_from_the_environment_as_airflow_has_them_there() -> None:
    environ = {
        "AIRFLOW_CONN_PEER_CLUSTER": connection(
            extra={"principal": "walferry@PEER", "keytab": "/k/peer_cluster", "zk_auth": "none"}
        )
    }
    assert peer_connection_from_env("peer_cluster", environ) == PeerConnection(THEIRS)
    assert peer_connection_from_env("other", environ) is None


def connection(**fields: Any) -> str:
    return json.dumps({"conn_type": "hbase_source", **fields})


def test_a_peer_cluster_s_connection_has_the_fields_of_a_login_and_needs_no_other() -> None:
    extra = {"principal": "walferry@PEER", "keytab": "/k/peer_cluster", "zk_auth": "none", "wal_root": "file:///not-looked-at"}
    assert peer_connection_from_text(connection(extra=extra), "peer_cluster") == PeerConnection(THEIRS)
    found = peer_connection_from_text("hbase-source://zk2,zk1:2182/?user=etl&znode_parent=%2Fhbase", "peer_cluster")
    assert found == PeerConnection(Login(user="etl"), "zk2:2182,zk1:2182", "/hbase")


def test_a_peer_cluster_s_principal_is_used_only_with_hosts_that_its_connection_names() -> None:
    """A peer cluster says by its ZooKeeper, hbase:meta and folders for loads which servers are talked to."""
    extra = {"principal": "walferry@PEER", "hosts": "*.west.example.com"}
    alone = peer_connection_from_text(connection(extra=extra), "peer_cluster").login.kerberos
    with_quorum = peer_connection_from_text(connection(host="zk1,zk2:2182", extra=extra), "peer_cluster").login.kerberos
    assert alone is not None
    assert with_quorum is not None
    hosts = ("rs1.west.example.com", "zk1", "zk2", "nn1.east.example.com")
    assert [alone.may_meet(host) for host in hosts] == [True, False, False, False]
    assert [with_quorum.may_meet(host) for host in hosts] == [True, True, True, False]


def test_the_source_s_principal_is_used_with_peer_clusters_only_on_hosts_that_its_connection_names() -> None:
    source = from_connection("zk", None, {"wal_root": "file:///h", "principal": "p@R", "hosts": "rs1"})
    there = SourceCluster.from_json(with_logins_of(source, [peer()]).to_json())
    for cluster in (source, there):
        ours, theirs = cluster.login.kerberos, cluster.login_to(peer()).kerberos
        assert ours is not None
        assert theirs is not None
        assert (ours.may_meet("any"), theirs.may_meet("rs1"), theirs.may_meet("any")) == (True, True, False)


def test_a_peer_cluster_s_connection_with_a_password_names_its_cluster() -> None:
    extra = {"zk_auth": "digest", "zk_user": "walferry", "zk_password_file": "/p"}
    with pytest.raises(
        SourceError, match="connection 'peer_cluster': host is empty; it must be the peer cluster's ZooKeeper quorum"
    ):
        peer_connection_from_text(connection(extra=extra), "peer_cluster")
    auth = ZooKeeperLogin(auth=ZooKeeperAuth.DIGEST, user="walferry", password_file="/p")
    assert peer_connection_from_text(connection(host="zk", extra=extra), "peer_cluster").login.zookeeper == auth


def test_a_field_that_is_not_known_is_refused() -> None:
    with pytest.raises(SourceError, match=r"connection 'peer_cluster': extra has principle, which .*did you mean principal\?"):
        peer_connection_from_text(connection(extra={"principle": "walferry@PEER"}), "peer_cluster")


@pytest.mark.parametrize("conn_type", ["postgres", "generic", "", None])
def test_nothing_is_told_of_a_connection_that_is_not_one_of_hbase(conn_type: str | None) -> None:
    text = json.dumps({"conn_type": conn_type, "host": "db", "password": "hunter2", "extra": {"sslmode": "require"}})
    with pytest.raises(SourceError) as error:
        peer_connection_from_text(text, "db")
    assert str(error.value) == "connection 'db' is not that of an HBase cluster: its type must be hbase_source or hbase"


def test_the_source_s_connection_names_connections_by_cluster_key() -> None:
    peer_clusters = {KEY: "peer_cluster", OTHER: "other"}
    expected = {"zk1:2181,zk2:2181:/hbase": "peer_cluster", "zk9:2181:/hbase": "other"}
    extra = {"wal_root": "file:///hbase", "peer_clusters": peer_clusters}
    assert from_connection("zk", None, extra).peer_conn_ids == expected
    assert from_connection("zk", None, {**extra, "peer_clusters": json.dumps(peer_clusters)}).peer_conn_ids == expected
    assert from_text(connection(host="zk", extra=extra)).peer_conn_ids == expected


@pytest.mark.parametrize(
    ("peer_clusters", "what"),
    [
        ("peer_cluster", "peer_clusters is not an object of connections by cluster keys"),
        (["peer_cluster"], "peer_clusters is not an object"),
        ({"zk1": "peer_cluster"}, "peer_clusters: cluster key 'zk1': it should be hbase"),
        ({KEY: ""}, f"peer_clusters has no connection's id for {KEY}"),
        ({KEY: 5}, f"peer_clusters has no connection's id for {KEY}"),
    ],
)
def test_an_error_of_the_peer_clusters_names_the_field(peer_clusters: Any, what: str) -> None:
    with pytest.raises(SourceError, match="connection 'prod': extra's peer_clusters") as error:
        from_connection("zk", None, {"wal_root": "file:///hbase", "peer_clusters": peer_clusters}, "prod")
    assert what in str(error.value)

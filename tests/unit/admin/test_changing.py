"""A peer's choice is changed from the Master's present state, and a table that was left out does not come in unseen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.observe.status.views import peer
from walferry.admin import changing, peers
from walferry.admin.changing import set_tables, set_values, settings_of
from walferry.admin.peer_cluster_checks import Wanted
from walferry.admin.peers import PeerAdmin, Refused
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import Login
from walferry.hbase.rpc.errors import RemoteError
from walferry.replication.peers.reading import DISABLED, Peer, as_peer
from walferry.replication.source.cluster import SourceError


class Master:
    """A managed peer as the Master has it."""

    def __init__(self, **fields: object) -> None:
        self.config = pb.ReplicationPeer(clusterkey="h:2181:/hbase", **fields)  # type: ignore[arg-type]
        self.config.configuration.add(name="walferry.managed", value="true")
        self.after: Callable[[], object] = lambda: None

    def managed(self, peer_id: str) -> Peer:
        return as_peer(peer_id, self.config, DISABLED, "/p")

    def change(self, peer_id: str, edit: Callable[[pb.ReplicationPeer], object]) -> None:
        config = pb.ReplicationPeer()
        config.CopyFrom(self.config)
        edit(config)
        self.config = config
        self.after()

    @property
    def session(self) -> Any:
        """That of a source with one connection of a peer cluster."""

        def login_at(cluster_key: str, conn_id: str) -> Login:
            if conn_id != "west":
                raise SourceError(f"the peer cluster {cluster_key} cannot be talked to: connection {conn_id!r} is not defined")
            return Login()

        return SimpleNamespace(source=SimpleNamespace(login_at=login_at))

    @property
    def admin(self) -> PeerAdmin:
        return cast(PeerAdmin, self)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What others do while a change asks both ends, each once."""
    waiting: list[Callable[[], object]] = []

    def check_ends(admin: PeerAdmin, wanted: Wanted, *, allow_missing: bool) -> None:
        if waiting:
            waiting.pop()()

    monkeypatch.setattr(changing, "check_ends", check_ends)
    return waiting


def table(name: str, *families: str, namespace: str = "default") -> pb.TableCF:
    return pb.TableCF(
        table_name=pb.TableName(namespace=namespace.encode(), qualifier=name.encode()), families=[f.encode() for f in families]
    )


def test_namespaces_that_another_operator_sets_meanwhile_stay(meanwhile: list[Callable[[], object]]) -> None:
    master = Master(replicate_all=False, namespaces=[b"a"])
    meanwhile.append(lambda: set_values(master.admin, "p", {"namespaces": "a,b"}))
    after = set_tables(master.admin, "p", {"t": ["f"]})
    assert (after.namespaces, after.table_cfs) == ({"a", "b"}, {"t": ("f",)})


def test_tables_that_another_operator_sets_meanwhile_stay(meanwhile: list[Callable[[], object]]) -> None:
    master = Master(replicate_all=False, table_cfs=[table("t")])
    meanwhile.append(lambda: set_tables(master.admin, "p", {"u": ["f"]}))
    after = set_values(master.admin, "p", {"namespaces": "a"})
    assert (after.namespaces, after.table_cfs) == ({"a"}, {"u": ("f",)})


def test_a_peer_does_not_get_everything_because_another_operator_takes_its_tables_away(
    meanwhile: list[Callable[[], object]],
) -> None:
    master = Master(replicate_all=False, namespaces=[b"a"], table_cfs=[table("t")])
    meanwhile.append(lambda: set_tables(master.admin, "p", {}))
    with pytest.raises(Refused, match="would get all user tables"):
        set_values(master.admin, "p", {"namespaces": ""})
    assert master.managed("p").namespaces == {"a"}


def test_a_change_that_another_one_undoes_is_told(meanwhile: list[Callable[[], object]]) -> None:
    master = Master(replicate_all=False, namespaces=[b"a"])
    master.after = lambda: master.config.ClearField("table_cfs")
    with pytest.raises(Refused, match="another command has changed"):
        set_tables(master.admin, "p", {"t": ["f"]})


@pytest.mark.parametrize(
    ("excluded", "named"),
    [
        ({"exclude_table_cfs": [table("secret", namespace="ns")]}, "ns:secret"),
        ({"exclude_table_cfs": [table("some", "f", namespace="ns")]}, "ns:some=f"),
        ({"exclude_namespaces": [b"ns"]}, "ns"),
    ],
    ids=["a table", "a family", "a namespace"],
)
def test_a_namespace_does_not_bring_what_the_peer_leaves_out(
    excluded: dict[str, object], named: str, meanwhile: list[Callable[[], object]]
) -> None:
    master = Master(replicate_all=True, **excluded)
    before = master.managed("p")
    with pytest.raises(Refused, match=f"peer p leaves out {named},"):
        set_values(master.admin, "p", {"namespaces": "ns,other"})
    assert master.managed("p") == before
    after = set_values(master.admin, "p", {"namespaces": "other"})
    assert (after.replicate_all, after.namespaces, after.exclude_table_cfs) == (False, {"other"}, None)
    chosen = set_tables(Master(replicate_all=True, **excluded).admin, "p", {"ns:secret": []})
    assert chosen.table_cfs == {"ns:secret": ()}, "a table that is named is meant"


class NotAsked:
    """An admin that nobody asks anything."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked for")


@pytest.mark.parametrize("name", ["max_lag", "walferry.max_lag"])
def test_a_limit_of_the_lag_is_checked_first(name: str) -> None:
    with pytest.raises(Refused, match=r"walferry\.max_lag is '5 minutes'; it must be a number of seconds from 1 to 31536000"):
        set_values(NotAsked(), "p", {name: "5 minutes"})  # type: ignore[arg-type]


def test_marks_are_no_settings() -> None:
    with pytest.raises(Refused, match="paused is not a setting"):
        set_values(NotAsked(), "p", {"paused": "true"})  # type: ignore[arg-type]
    with pytest.raises(Refused, match="did you mean max_lag"):
        set_values(NotAsked(), "p", {"maxlag": "5"})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["peer_conn_id", "walferry.peer_conn_id"])
def test_the_connection_of_the_peer_cluster_can_be_set_if_it_is_there(name: str) -> None:
    master = Master()
    after = set_values(master.admin, "p", {name: "west"})
    assert after.peer_conn_id == "west"
    assert settings_of(after) == {"peer_conn_id": "west"}
    with pytest.raises(SourceError, match="connection 'east' is not defined"):
        set_values(master.admin, "p", {name: "east"})
    assert master.managed("p").peer_conn_id == "west"
    assert set_values(master.admin, "p", {name: ""}).peer_conn_id is None


def test_the_limit_is_shown_among_the_settings_and_marks_are_not() -> None:
    config = {"walferry.managed": "true", "walferry.paused": "false", "walferry.max_lag": "300", "walferry.sink": "direct"}
    assert settings_of(replace(peer(), config=config)) == {"max_lag": "300", "sink": "direct"}


def test_the_master_changes_no_peer_whose_peer_cluster_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """As HBase 2.6.1's Master answers."""

    def refuse(*_: object) -> None:
        message = "Can't get peerClusterId for clusterKey=west:2181:/hbase"
        raise RemoteError("master:16000", "org.apache.hadoop.hbase.DoNotRetryIOException", message, do_not_retry=True)

    admin = PeerAdmin(cast(Any, None))
    monkeypatch.setattr(PeerAdmin, "master", lambda _: nullcontext())
    monkeypatch.setattr(peers.master, "get_peer", lambda *_: pb.ReplicationPeer(clusterkey="west:2181:/hbase"))
    monkeypatch.setattr(peers.master, "update_peer_config", refuse)
    with pytest.raises(Refused, match="only while the ZooKeeper of its peer cluster answers it, and it does not"):
        admin.put_configuration("2", {"walferry.paused": "true"})


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """The configurations of other peers."""
    found: dict[str, dict[str, str]] = {"a": {"walferry.managed": "true"}, "of_hbase": {}}

    def read_peers(_: object) -> SimpleNamespace:
        return SimpleNamespace(peers=[replace(peer(name), config=config) for name, config in found.items()])

    monkeypatch.setattr(changing, "read_peers", read_peers)
    return found


def test_a_peer_s_files_can_be_made_with_those_of_another_managed_peer(others: dict[str, dict[str, str]]) -> None:
    master = Master()
    assert set_values(master.admin, "p", {"hfiles.with": "a"}).hfiles_with == "a"
    assert set_values(master.admin, "p", {"hfiles.with": ""}).hfiles_with is None
    for name in ("p", "of_hbase", "none"):
        with pytest.raises(Refused, match=rf"no other managed peer {name} .*Other managed peers: a"):
            set_values(master.admin, "p", {"hfiles.with": name})


def test_a_peer_whose_files_are_made_with_another_s_makes_none_for_others(others: dict[str, dict[str, str]]) -> None:
    others["a"]["walferry.hfiles.with"] = "b"
    with pytest.raises(Refused, match="the files of peer a are made with those of peer b"):
        set_values(Master().admin, "p", {"hfiles.with": "a"})
    others["a"]["walferry.hfiles.with"] = "p"
    others["b"] = {"walferry.managed": "true"}
    with pytest.raises(Refused, match="the files of peer a are made with those of peer p"):
        set_values(Master().admin, "p", {"hfiles.with": "b"})

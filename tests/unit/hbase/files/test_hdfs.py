"""Clients of HDFS: which tickets they use, and when they take new ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.base.security.gssapi import KerberosError
from walferry.base.security.login import Kerberos
from walferry.base.security.tickets import Service
from walferry.hbase.files import clients, hdfs, logins
from walferry.hbase.files.errors import HdfsLoginFailed

EAST = Kerberos(principal="walferry@EAST", keytab="/k")
HA = {
    "dfs.ha.namenodes.ns": "a,b",
    "dfs.namenode.rpc-address.ns.a": "nn1.east:8020",
    "dfs.namenode.rpc-address.ns.b": "nn2.east:8020",
}
KERBEROS = {"hadoop.security.authentication": "kerberos"}


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_logins", "_lent"):
        monkeypatch.setattr(logins, name, {})
    monkeypatch.setattr(hdfs, "_proved", {})
    monkeypatch.setattr(clients, "_file_systems", {})


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    def write(settings: dict[str, str]) -> None:
        entries = "".join(f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items())
        (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")

    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    write({})
    return write


def test_there_are_tickets_for_the_name_nodes_that_have_proved_their_names_and_their_like(
    configure: Callable[[dict[str, str]], None],
) -> None:
    configure(HA)
    hdfs._proved["nn1.east", 8020] = Service("nn", "nn1.east")
    hdfs._proved["evil.west", 8020] = Service("nn", "evil.west")
    assert hdfs._services("hdfs://ns/hbase", EAST) == [Service("nn", "nn1.east"), Service("nn", "nn2.east")]
    hdfs._proved["nn2.east", 8020] = Service("hdfs", "ha.east")
    assert hdfs._services("hdfs://ns/hbase", EAST) == [Service("hdfs", "ha.east"), Service("nn", "nn1.east")]


def test_there_are_no_tickets_for_hosts_of_a_peer_cluster_that_no_connection_names(
    configure: Callable[[dict[str, str]], None],
) -> None:
    configure({**HA, "hadoop.security.key.provider.path": "kms://https@kms1.east;kms2.west:9600/kms"})
    hdfs._proved["nn1.east", 8020] = Service("nn", "nn1.east")
    peer_cluster = Kerberos(principal="p@R", hosts=("nn1.east", "*.west"), only_hosts=True)
    assert hdfs._services("hdfs://ns/hbase", peer_cluster) == [Service("HTTP", "kms2.west"), Service("nn", "nn1.east")]


def test_the_environment_s_tickets_go_from_a_peer_cluster_s_folder_to_configured_name_nodes_alone(
    configure: Callable[[dict[str, str]], None],
) -> None:
    configure({**HA, **KERBEROS, "fs.defaultFS": "hdfs://nn3.east:9000/"})
    logins.log_in("hdfs://nn9:8020/hbase", None)
    logins.lend("hdfs://evil.west:8020/staging/u__t__1", None)
    ours, theirs = (
        hdfs.login_in_effect("hdfs://nn9:8020/hbase/x"),
        hdfs.login_in_effect("hdfs://evil.west:8020/staging/u__t__1/f"),
    )
    assert ours is not None
    assert theirs is not None
    assert ours.may_meet("nn9")
    hosts = ("nn1.east", "nn2.east", "nn3.east", "evil.west", "nn9")
    assert [theirs.may_meet(host) for host in hosts] == [True, True, True, False, False]
    assert "is not used with the host 'evil.west'" in str(hdfs.login_problem("hdfs://evil.west:8020/staging/u__t__1"))


@pytest.mark.parametrize("tickets", [True, False])
def test_delegation_tokens_are_used_where_there_are_no_tickets_that_could_be_handed_on(
    configure: Callable[[dict[str, str]], None], monkeypatch: pytest.MonkeyPatch, tickets: bool
) -> None:
    def get(_: object) -> None:
        if not tickets:
            raise KerberosError("none")

    configure(KERBEROS)
    monkeypatch.setattr(hdfs.Credential, "get", get)
    assert not hdfs._by_tokens("hdfs://nn/hbase")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", "/tokens")
    assert hdfs._by_tokens("hdfs://nn/hbase") is not tickets
    logins.log_in("hdfs://nn/hbase", EAST)
    assert not hdfs._by_tokens("hdfs://nn/hbase")


class Made:
    """Makes file systems, and counts them; each has tickets for a while."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, seconds: float | None) -> None:
        self.systems: list[Any] = []
        self.problem: str | None = None
        self._seconds = seconds
        self.now = 1000.0
        monkeypatch.setattr(clients, "unreachable", lambda _: None)
        monkeypatch.setattr(clients, "login_problem", lambda _: self.problem)
        monkeypatch.setattr(clients, "preferred", lambda _: {})
        monkeypatch.setattr(clients, "new_file_system", self)
        monkeypatch.setattr(clients.time, "time", lambda: self.now)

    def __call__(self, url: str, more: object) -> Any:
        tickets = None if self._seconds is None else SimpleNamespace(renew_at=self.now + self._seconds)
        self.systems.append(SimpleNamespace(client=SimpleNamespace(tickets=tickets)))
        return self.systems[-1]


def test_a_client_has_new_tickets_before_its_own_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, seconds=600)
    first = clients.file_system("hdfs://nn:8020/a")
    made.now += 599
    assert clients.file_system("hdfs://nn:8020/b") is first
    made.now += 2
    assert clients.file_system("hdfs://nn:8020/a") is made.systems[1]
    assert clients.file_system("hdfs://nn:8020/a") is made.systems[1]


def test_clients_of_very_many_hosts_are_not_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, seconds=None)
    for number in range(3 * clients.MOST_KEPT):
        assert clients.file_system(f"hdfs://h{number}:8020/a") is made.systems[-1]
    assert len(clients._file_systems) == clients.MOST_KEPT
    assert clients.file_system(f"hdfs://h{number}:8020/b") is made.systems[3 * clients.MOST_KEPT - 1]


def test_a_client_without_tickets_serves_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch, seconds=None)
    first = clients.file_system("hdfs://nn:8020/a")
    made.now += 1e9
    assert clients.file_system("hdfs://nn:8020/a") is first


def test_tickets_that_are_not_to_be_had_are_told_as_a_login_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Any:
        raise KerberosError("walferry@EAST got no ticket for nn/nn")

    Made(monkeypatch, seconds=1)
    monkeypatch.setattr(clients, "new_file_system", refuse)
    with pytest.raises(HdfsLoginFailed, match="hdfs://nn:8020/a: walferry@EAST got no ticket for nn/nn"):
        clients.file_system("hdfs://nn:8020/a")

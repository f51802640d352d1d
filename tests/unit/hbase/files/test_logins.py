"""A folder is used as the principal of its cluster, in each process that knows the cluster."""

from __future__ import annotations

import pickle

import pytest

from walferry.base.security.login import Kerberos, Login
from walferry.hbase.files import logins
from walferry.hbase.files.logins import MOST_LENT, lend, log_in, login_at
from walferry.load.staging import log_in_to
from walferry.replication.source.cluster import SourceCluster

EAST, WEST = Kerberos(principal="walferry@EAST"), Kerberos(principal="walferry@WEST")


@pytest.fixture(autouse=True)
def _nobody_is_logged_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "_logins", {})
    monkeypatch.setattr(logins, "_lent", {})


def test_the_innermost_folder_decides() -> None:
    log_in("hdfs://nn/hbase/", EAST)
    log_in("hdfs://nn/hbase/staging", WEST)
    assert login_at("hdfs://nn/hbase/WALs/rs/wal") == EAST
    assert login_at("hdfs://nn/hbase/staging/t") == WEST


def test_what_is_in_no_folder_is_used_as_the_file_system_s_first_login_and_other_file_systems_without_any() -> None:
    log_in("hdfs://nn/hbase", EAST)
    log_in("hdfs://nn/other", WEST)
    assert login_at("hdfs://nn/archive") == EAST
    assert login_at("hdfs://nn2/hbase") is None
    assert login_at("hdfs://nn:8020/hbase") is None


@pytest.mark.parametrize(
    "token", ["hdfs://nn/hbase/u-staging__t__0", "hdfs://nn/hbase/WALs/u__t__0", "hdfs://nn/archive/u__t__0", "hdfs://nn/u__t__0"]
)
@pytest.mark.parametrize("peer_cluster", [WEST, None], ids=["secured", "unsecured"])
def test_a_folder_that_a_peer_cluster_names_decides_about_no_other_wherever_it_lies(
    token: str, peer_cluster: Kerberos | None
) -> None:
    """A hostile peer cluster names places in the source's folders: these must not be used as its principal, or without any."""
    log_in("hdfs://nn/hbase", EAST)
    log_in("hdfs://nn/archive", EAST)
    log_in_to(token, Login(kerberos=peer_cluster))
    assert login_at(f"{token}/family/file") == peer_cluster
    assert {login_at(f"hdfs://nn{each}") for each in ("/hbase/WALs/rs/wal", "/hbase", "/archive/wal", "/elsewhere")} == {EAST}


def test_folders_that_a_peer_cluster_names_do_not_take_up_memory_for_ever() -> None:
    for number in range(MOST_LENT + 10):
        lend(f"hdfs://peer/staging/u__t__{number}", WEST)
    assert len(logins._lent) == MOST_LENT
    assert login_at(f"hdfs://peer/staging/u__t__{MOST_LENT + 9}/f") == WEST


def test_folders_that_are_not_on_hdfs_have_no_login() -> None:
    log_in("file:///hbase", EAST)
    log_in("s3a://bucket/hbase", EAST)
    lend("file:///staging/u__t__0", EAST)
    assert logins._logins == logins._lent == {}


def test_a_cluster_s_folders_have_its_login_also_where_it_comes_from_json_or_a_pickle() -> None:
    source = SourceCluster(
        quorum="zk:2181",
        wal_root="hdfs://nn/wal",
        root_dir="hdfs://nn/root",
        peers_root="hdfs://nn/peers",
        archive="hdfs://far/archive",
        login=Login(kerberos=EAST),
    )
    text, pickled = source.to_json(), pickle.dumps(source)
    for again in (lambda: SourceCluster.from_json(text), lambda: pickle.loads(pickled)):
        logins._logins.clear()
        again()
        assert {
            login_at(url) for url in ("hdfs://nn/wal/WALs", "hdfs://nn/root/data", "hdfs://nn/peers/p", "hdfs://far/archive/x")
        } == {EAST}

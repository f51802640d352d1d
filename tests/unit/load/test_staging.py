"""The peer cluster deletes a folder that a note in ZooKeeper names only if a server can have made the folder for a load."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.protos import hbase_pb2 as pb
from walferry.base.security.login import UNSECURED
from walferry.hbase.rpc.errors import ConnectionFailed
from walferry.initial_snapshot.files_copy import clean
from walferry.load import file_loader, staging
from walferry.load.copy_records import RegionRecord
from walferry.load.errors import CopyRefused, LoadOvertaken, NotLoaded, StaleLoad
from walferry.load.file_loader import clean_folders
from walferry.load.records import Folder
from walferry.load.staging import check_form, new_folder, wrong_folder
from walferry.replication.source.cluster import SourceCluster

RANDOM = "3ab9vlq0" * 8
SOURCE = SourceCluster(quorum="zk:2181", wal_root="hdfs://source/hbase")
REGION = b"ns:t,row,17.0123456789abcdef0123456789abcdef."
TOKEN = f"hdfs://peer:8020/hbase/staging/walferry__ns_t__{'3ab9vlq0' * 8}"
PLACES = [
    "hdfs://peer:8020/hbase",
    "hdfs://peer:8020/",
    "file:///hbase/peer_cluster/data",
    "hdfs://peer/hbase/data/ns/t",
    "",
    "x",
]


class PeerCluster:
    """Notes which folders it is told to delete, and by the region of which row."""

    server = "peer-rs:16020"

    def __init__(self) -> None:
        self.deleted: list[tuple[bytes, str]] = []

    def place(self, table: str) -> Any:
        locate = lambda row: SimpleNamespace(name=b"%s,%s" % (table.encode(), row))  # noqa: E731
        return SimpleNamespace(table=table, locate=locate, connection=lambda region: self)

    def call(self, method: str, request: pb.CleanupBulkLoadRequest, response: Any) -> Any:
        assert method == "CleanupBulkLoad"
        self.deleted.append((request.region.value, request.bulk_token))
        return response()


def reported_by_an_initial_snapshot(token: str, region: str) -> PeerCluster:
    peer_cluster = PeerCluster()
    with suppress(CopyRefused):
        clean(peer_cluster.place("ns:t"), RegionRecord(staging=token, peer_cluster_region=region), SOURCE.wal_root)
    return peer_cluster


def reported_by_a_load(token: str, region: str) -> PeerCluster:
    peer_cluster = PeerCluster()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_loader, "folders_of", lambda zk, record: {"/note": Folder(token, "ns:t", region)})
        patch.setattr(file_loader, "forget", lambda zk, note: None)
        with suppress(StaleLoad):
            clean_folders("/record", None, peer_cluster, SOURCE)  # type: ignore[arg-type]
    return peer_cluster


both = pytest.mark.parametrize("reported", [reported_by_an_initial_snapshot, reported_by_a_load])


@both
def test_the_folder_of_a_load_is_deleted(reported: Any) -> None:
    assert reported(TOKEN, REGION.hex()).deleted == [(b"ns:t,row", TOKEN)]


@both
@pytest.mark.parametrize("token", [each for each in PLACES if each])
def test_no_other_folder_is(reported: Any, token: str) -> None:
    assert reported(token, REGION.hex()).deleted == []


@both
@pytest.mark.parametrize("region", ["zz", "", "00", b"t,row,17.".hex(), b"ns:t".hex(), b"ns:t2,row,17.".hex(), "\u0661"])
def test_none_is_deleted_for_what_is_not_a_region_of_the_table(reported: Any, region: str) -> None:
    assert reported(TOKEN, region).deleted == []


@both
@given(st.text(), st.text())
def test_whatever_a_note_says_no_order_is_made_of_it(reported: Any, token: str, region: str) -> None:
    assert reported(token, region).deleted == []
    assert reported(token, REGION.hex()).deleted == []


@both
@given(st.sampled_from(["..", "data", "staging", "", "walferry__ns_t__" + "0a" * 30, "a"]).flatmap(
    lambda last: st.lists(st.sampled_from(["..", ".", "", "data", "staging", "hbase"]), max_size=4).map(lambda up: [*up, last])
))  # fmt: skip
def test_a_path_that_is_deleted_has_no_steps_upwards_and_ends_below_staging(reported: Any, steps: list[str]) -> None:
    for _, token in reported("hdfs://peer/" + "/".join(steps), REGION.hex()).deleted:
        assert steps[-2] == "staging"
        assert not {"..", ".", ""} & set(steps), token


@pytest.mark.parametrize("host", ["[peer", "peer:x", "peer:99999999", "peer\nERROR forged", "s\x1b[2J", "s\0", "s" * 9999])
def test_a_url_that_no_client_can_read_or_that_would_write_into_a_log_is_no_folder(host: str) -> None:
    assert wrong_folder(TOKEN.replace("peer:8020", host), "ns:t", SOURCE.wal_root)
    if not host.isprintable():
        assert wrong_folder(TOKEN.replace("/hbase", f"/{host}"), "ns:t", SOURCE.wal_root)
        assert wrong_folder(TOKEN.replace("walferry__", f"{host}__"), "ns:t", SOURCE.wal_root)


def test_the_error_names_the_table_and_what_is_wrong() -> None:
    with pytest.raises(CopyRefused, match=r"table ns:t .*'hdfs://peer/', which is not a folder .* by hand"):
        clean(
            PeerCluster().place("ns:t"), RegionRecord(staging="hdfs://peer/", peer_cluster_region=REGION.hex()), SOURCE.wal_root
        )


class Down(PeerCluster):
    """Answers only after some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls

    def call(self, *arguments: Any) -> Any:
        self.calls -= 1
        if self.calls >= 0:
            raise ConnectionFailed("rs", "refused")
        return super().call(*arguments)


def test_an_initial_snapshot_does_not_go_on_while_the_folder_of_a_killed_task_may_be_there() -> None:
    """A load of that task could still bring its older files."""
    down, record = Down(2), RegionRecord(staging=TOKEN, peer_cluster_region=REGION.hex())
    with pytest.raises(StaleLoad, match=f"{TOKEN} at the peer cluster, which does not delete it: .*refused"):
        clean(down.place("ns:t"), record, SOURCE.wal_root)
    clean(down.place("ns:t"), record, SOURCE.wal_root, patience_seconds=10)
    assert down.deleted == [(b"ns:t,row", TOKEN)]


@pytest.mark.parametrize(
    ("token", "taken"),
    [
        (f"hdfs://peer:8020/hbase/staging/walferry__ns_t__{RANDOM}", True),
        (f"hdfs://peer/user/hbase/hbase-staging/walferry__ns_t__{RANDOM}", False),
        (f"hdfs://peer/hbase/data/default/walferry__ns_t__{RANDOM}", False),  # a table may have such a name
        ("hdfs://peer/hbase/staging/walferry__ns_t__2024", False),
        (f"file:/tmp/peer_cluster/staging/walferry__ns_t__{RANDOM}", False),  # the source is on HDFS
        ("hdfs://source/hbase/data/default/other/0123456789abcdef/f", False),
        (f"hdfs://10.0.0.1/hbase/data/default/other/0123456789abcdef/f/walferry__ns_t__{RANDOM}", False),
        (f"hdfs://source/hbase/oldWALs/walferry__ns_t__{RANDOM}", False),
        (f"hdfs://10.0.0.1/hbase/data/default/staging/walferry__ns_t__{RANDOM}", False),  # of a table that is called staging
        (f"hdfs://source/hbase/staging/../data/walferry__ns_t__{RANDOM}", False),
        (f"hdfs://source/x/../hbase/data/walferry__ns_t__{RANDOM}", False),
        (f"hdfs://source//hbase/data/walferry__ns_t__{RANDOM}", False),
        ("hdfs://source/warehouse/sales.db/day=1", False),
        (f"hdfs://peer/hbase/staging/walferry__other__{RANDOM}", False),
        (f"hdfs://peer/hbase/staging/walferry__ns_t__{RANDOM}/", False),
        (f"hdfs://peer/hbase/staging/walferry__ns_t__{RANDOM}?x#y", False),
    ],
)
def test_files_are_put_only_into_a_folder_of_the_form_that_hbase_makes_for_them(token, taken):
    if taken:
        check_form(token, "ns:t", "hdfs://source/hbase")
        return
    with pytest.raises(NotLoaded, match="the peer cluster wants files in"):
        check_form(token, "ns:t", "hdfs://source/hbase")


def test_clusters_on_a_local_disk_may_copy_to_each_other():
    check_form(f"file:/tmp/peer_cluster/staging/root__t__{RANDOM}", "t", "file:///tmp/source")
    for folder in ("/tmp/source/data", "/etc/cron.d"):
        with pytest.raises(NotLoaded):
            check_form(f"file:{folder}", "t", "file:///tmp/source")


@pytest.mark.parametrize("noted", [True, False])
def test_a_new_folder_is_noted_before_its_login_is_used_and_deleted_if_it_cannot_be(
    noted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def note(token: str) -> str:
        seen.append("note")
        if not noted:
            raise LoadOvertaken("/record")
        return token

    monkeypatch.setattr(staging.bulk_load, "prepare", lambda *_: TOKEN)
    monkeypatch.setattr(staging.bulk_load, "cleanup", lambda *args: seen.append(f"delete {args[-1]}"))
    monkeypatch.setattr(staging, "log_in_to", lambda *_: seen.append("log in"))
    server: Any = None
    if noted:
        assert new_folder(server, "ns:t", REGION, SOURCE.wal_root, UNSECURED, note) == TOKEN
    else:
        with pytest.raises(LoadOvertaken):
            new_folder(server, "ns:t", REGION, SOURCE.wal_root, UNSECURED, note)
    assert seen == (["note", "log in"] if noted else ["note", f"delete {TOKEN}"])

"""Who else may write to Walferry's own root: whoever has made it before, where all may make znodes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, READ_ACL_UNSAFE, make_acl

from walferry.diagnosis import source as module
from walferry.diagnosis.findings import Finding
from walferry.source.cluster import SourceCluster
from walferry.source.session import Session

HBASE = make_acl("sasl", "hbase", all=True)
MALLORY = make_acl("digest", "mallory:x", create=True)
ALL = make_acl("world", "anyone", all=True)
SOURCE = SourceCluster(quorum="zk:2181", wal_root="file:///hbase")


class Znodes(KazooClient):
    """Walferry's root with these ACLs, by name; "" is the root itself."""

    def __init__(self, acls: dict[str, list[ACL]], default_acl: list[ACL] | None) -> None:
        super().__init__()
        self.default_acl, self._acls = default_acl, acls

    def get_children(self, path: str, watch: object = None) -> list[str]:
        return [name for name in self._acls if name]

    def get_acls(self, path: str) -> tuple[list[ACL], None]:
        name = path.removeprefix("/walferry").strip("/")
        if name not in self._acls:
            raise NoNodeError
        if not self._acls[name]:
            raise NoAuthError
        return self._acls[name], None


def look(acls: dict[str, list[ACL]], default_acl: list[ACL] | None, monkeypatch: pytest.MonkeyPatch) -> Finding:
    monkeypatch.setattr(module, "just_written", lambda zk, path: SimpleNamespace())
    return module._own_root(Session(SOURCE, Znodes(acls, default_acl)))


@pytest.mark.parametrize(
    "acls", [{"": [HBASE], "loads": [HBASE]}, {"": [HBASE, *READ_ACL_UNSAFE]}, {"": [make_acl("sasl", "hbase", create=True)]}]
)
def test_a_root_that_belongs_to_those_that_hbase_s_queues_do_is_well(acls, monkeypatch):
    assert look(acls, [HBASE], monkeypatch).state == "well"


@pytest.mark.parametrize(("acls", "what"), [({"": [HBASE, MALLORY]}, "/walferry"), ({"": [HBASE], "loads": [MALLORY]}, "/loads")])
def test_a_root_that_somebody_else_may_write_to_is_told(acls, what, monkeypatch):
    found = look(acls, [HBASE], monkeypatch)
    assert found.state == "note"
    assert f"{what} can be changed by digest:mallory:x, whom HBase's queues do not belong to" in found.text
    assert "/hbase/replication/rs" in found.advice


def test_an_acl_that_may_not_be_seen_is_told(monkeypatch):
    found = look({"": [HBASE], "loads": []}, [HBASE], monkeypatch)
    assert found.state == "wrong"
    assert "/walferry/loads in ZooKeeper of the source cluster belongs to others" in found.text


def test_where_all_znodes_belong_to_all_nothing_is_told(monkeypatch):
    assert look({"": [ALL]}, None, monkeypatch).state == "well"

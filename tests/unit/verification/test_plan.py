"""Which tables a repair refuses."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.base.protos import hbase_pb2 as pb
from walferry.replication.peers.reading import Peer
from walferry.replication.peers.settings import CUSTOM_FILTERS, SYSTEM_CATALOG_FILTER
from walferry.verification import plan
from walferry.verification.plan import NothingToCompare, RepairRefused, check_repairable

SESSION: Any = SimpleNamespace(zk=None, nodes=None, source=SimpleNamespace(login=None))


def schema(**families: dict[str, str]) -> pb.TableSchema:
    """A table's schema, with the attributes of its families."""
    found = pb.TableSchema()
    for name, attributes in families.items():
        family = found.column_families.add(name=name.encode())
        for key, value in attributes.items():
            family.attributes.add(first=key.encode(), second=value.encode())
    return found


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_a_repair_refuses_families_with_new_version_behavior(value: str) -> None:
    with pytest.raises(RepairRefused, match=r"family f of table t has NEW_VERSION_BEHAVIOR.* Name the other tables"):
        check_repairable({"t": schema(f={"NEW_VERSION_BEHAVIOR": value}), "a": schema(f={})}, {"a": (b"f",), "t": (b"f",)})


def test_a_family_of_the_peer_cluster_alone_counts_too() -> None:
    peer_cluster = {"t": schema(f={"NEW_VERSION_BEHAVIOR": "true"}, of_others={})}
    with pytest.raises(RepairRefused, match=r"family f of table t at the peer cluster has NEW_VERSION_BEHAVIOR"):
        check_repairable(peer_cluster, {"t": (b"f",)}, " at the peer cluster")


def test_a_repair_takes_other_families() -> None:
    table = schema(f={"NEW_VERSION_BEHAVIOR": "false"}, g={}, not_replicated={"NEW_VERSION_BEHAVIOR": "true"})
    check_repairable({"t": table}, {"t": (b"f", b"g")})


def test_families_are_compared_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "active_master", lambda *_: None)
    monkeypatch.setattr(plan.master, "connect", lambda *_, **__: nullcontext())
    known: dict[str, dict[str, bool]] = {"t": {"f": True, "été": True, r"\xE9": True, "local": False}}
    monkeypatch.setattr(plan.master, "replicated_families", lambda *_: known)
    peer = Peer("p", "", "DISABLED", {}, exclude_table_cfs={"t": ("f",)})
    assert plan._families(SESSION, peer, ()) == {"t": (b"\xe9", "été".encode())}


def test_a_table_of_which_the_peer_gets_only_some_rows_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "active_master", lambda *_: None)
    monkeypatch.setattr(plan.master, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(plan.master, "replicated_families", lambda *_: {"t": {"f": True}, "SYSTEM.CATALOG": {"0": True}})
    peer = Peer("p", "", "DISABLED", {CUSTOM_FILTERS.key: SYSTEM_CATALOG_FILTER})
    assert plan._families(SESSION, peer, ()) == {"t": (b"f",)}
    with pytest.raises(NothingToCompare, match=r"a filter of peer p chooses rows of table SYSTEM\.CATALOG"):
        plan._families(SESSION, peer, ("t", "SYSTEM.CATALOG"))

"""Edits may be dropped only if the peer cluster lacks their table or family, and the source certainly has it no more, either."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from walferry.base.errors import WalferryError
from walferry.base.zk.right import Right, spare_seconds
from walferry.hbase.errors import ClusterError
from walferry.hbase.rpc.errors import AccessDenied, ConnectionFailed
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable, ScanGivenUp
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.errors import NotAtPeerCluster
from walferry.shipping import deleted as module
from walferry.shipping.deleted import Missing, attempt_without, deleted_at_source, may_be_dropped, names_of

REFUSAL = WalferryError("table does not exist there")
NEITHER, BOTH = PeerSettings(), PeerSettings(drop_deleted_tables=True, drop_deleted_families=True)
TABLES, FAMILIES = PeerSettings(drop_deleted_tables=True), PeerSettings(drop_deleted_families=True)


class Held:
    """A right's ground that holds."""

    def is_sure(self) -> bool:
        return True

    def allow(self, seconds: float) -> None: ...


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Any]:
    """`source({"t": ["f"]})` → a session with a source that has this table; an error is what asking the Master raises.

    `in_meta` are the tables with regions in hbase:meta, or what looking there raises.
    """

    def session(has: Any, in_meta: Any = ()) -> Any:
        def families(_: object, tables: list[str]) -> dict[str, dict[str, bool]]:
            if isinstance(has, Exception):
                raise has
            return {table: dict.fromkeys(has[table], True) for table in tables if table in has}

        def regions(table: str) -> list[object]:
            if isinstance(in_meta, Exception):
                raise in_meta
            if table not in in_meta:
                raise MissingTable(table, "the source")
            return [object()]

        monkeypatch.setattr(module, "Tables", lambda *_, **__: nullcontext(SimpleNamespace(regions=regions)))
        monkeypatch.setattr(module, "active_master", lambda *_: None)
        monkeypatch.setattr(module.master, "connect", lambda *_, **__: nullcontext())
        monkeypatch.setattr(module.master, "replicated_families", families)
        return SimpleNamespace(zk=None, nodes=None, source=SimpleNamespace(login=None))

    return session


@pytest.mark.parametrize(
    ("has", "missing", "expected"),
    [
        ({}, [("t", None)], {b"t": frozenset()}),
        ({"u": ["f"]}, [("t", None), ("u", None)], {b"t": frozenset()}),
        ({"t": ["f"]}, [("t", None)], {}),
        ({"t": ["f"]}, [("t", "g")], {b"t": frozenset({b"g"})}),
        ({"t": ["f"]}, [("t", "g"), ("u", None), ("t", "h")], {b"t": frozenset({b"g", b"h"}), b"u": frozenset()}),
        ({"t": ["f", "g"]}, [("t", "g")], {}),
        ({}, [("t", "g")], {}),  # as HBase: without the table it is not known which families are gone
        ({}, [("t", "g"), ("t", None)], {b"t": frozenset()}),
        (AccessDenied("m:1", "AccessDeniedException", "t", True), [("t", None)], {}),
        (ConnectionFailed("m:1", "refused"), [("t", "g")], {}),
        (ClusterError("no master is active"), [("t", None)], {}),
        (AssertionError("is not asked"), [], {}),
    ],
)
def test_only_what_the_source_certainly_has_no_more_is_dropped(source, has, missing, expected):
    assert deleted_at_source(source(has), missing) == expected


@pytest.mark.parametrize("in_meta", [
    ("t",), RegionUnavailable("no server serves hbase:meta"), ScanGivenUp("hbase:meta", b"", 20, "moving"),
])  # fmt: skip
def test_a_table_with_regions_is_not_deleted_though_the_master_cannot_read_its_descriptor(source, in_meta):
    """FSTableDescriptors.get answers null, as for a deleted table, if reading .tableinfo fails."""
    assert deleted_at_source(source({}, in_meta), [("t", None)]) == {}


@pytest.mark.parametrize(
    ("settings", "tables", "families"),
    [(NEITHER, False, False), (TABLES, True, False), (FAMILIES, False, True), (BOTH, True, True)],
)
def test_each_setting_is_for_its_own_kind(settings, tables, families):
    assert (may_be_dropped(settings, ("t", None)), may_be_dropped(settings, ("t", "f"))) == (tables, families)


def test_tables_and_families_are_named_for_people():
    assert names_of({b"t": frozenset({b"g", b"f"}), b"ns:u": frozenset()}) == ["ns:u", "t:f", "t:g"]


@pytest.fixture
def attempts() -> Callable[..., list[Any]]:
    """`attempts(errors)` → what each attempt was told that the peer cluster lacks; the attempts raise the errors, one each."""

    def run(errors: list[NotAtPeerCluster], settings: PeerSettings = BOTH) -> list[Any]:
        reported, left = list[Any](), list(errors)

        def attempt(missing: Collection[Missing]) -> None:
            reported.append(list(missing))
            if left:
                raise left.pop(0)

        attempt_without(settings, Right(), attempt)
        return reported

    return run


def test_a_group_begins_again_for_each_table_and_family_that_the_peer_cluster_lacks(attempts):
    reported = attempts([NotAtPeerCluster(REFUSAL, "t"), NotAtPeerCluster(REFUSAL, "u", "g")])
    assert reported == [[], [("t", None)], [("t", None), ("u", "g")]]


def test_what_is_refused_again_ends_the_group(attempts):
    with pytest.raises(NotAtPeerCluster):
        attempts([NotAtPeerCluster(REFUSAL, "t"), NotAtPeerCluster(REFUSAL, "u"), NotAtPeerCluster(REFUSAL, "t")])


def test_what_must_not_be_dropped_ends_the_group(attempts):
    with pytest.raises(NotAtPeerCluster):
        attempts([NotAtPeerCluster(REFUSAL, "t")], FAMILIES)


def test_an_attempt_sends_nothing_while_a_request_of_the_one_before_may_take_effect() -> None:
    """Another sender had sent it, and had no answer yet. It would come over what this attempt ships after its like."""
    clock = [1000.0]
    right, sure = Right(Held(), 60.0, clock=lambda: clock[0]), list[bool]()

    def attempt(missing: Collection[Missing]) -> None:
        sure.append(right.is_sure())
        if not missing:
            with suppress(ZeroDivisionError), right.request(60) as request:
                request.may_go_on()
                raise ZeroDivisionError
            raise NotAtPeerCluster(REFUSAL, "t")

    attempt_without(TABLES, right, attempt)
    assert sure == [True, False]
    clock[0] += 60 + spare_seconds(60)
    assert right.is_sure()

"""Finds up to which WALs a peer's queues are older than a copy that begins now."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import DEAD, OTHER, SERVER, HBaseZNodes, wal
from walferry.load import copy_border
from walferry.load.copy_border import find_border
from walferry.load.errors import NotRolled
from walferry.replication.queues.rolling import Rolled
from walferry.replication.source.session import Session


def group(server: str) -> str:
    return wal(0, server).rpartition(".")[0]


def test_the_border_is_the_newest_closed_wal_of_each_group(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    rolled: list[list[str]] = []

    def roll(_: Session, peers: list[str]) -> Rolled:
        rolled.append(peers)
        hbase.add_wal(SERVER, "p", wal(20, SERVER))
        return Rolled(1)

    monkeypatch.setattr(copy_border, "roll", roll)
    hbase.start_server(OTHER)
    for number in (9, 10):
        hbase.add_wal(SERVER, "p", wal(number, SERVER))
    hbase.add_wal(OTHER, "p", wal(5, OTHER))  # a server that began later has no closed WAL
    for number in (7, 8):
        hbase.add_wal(SERVER, f"p-{DEAD}", wal(number, DEAD))
    hbase.add_wal(SERVER, "q", wal(99, SERVER))
    found = find_border(session_of(zk, hbase), "p", "run")
    assert found.groups == {group(SERVER): wal(10, SERVER), group(DEAD): wal(8, DEAD)}
    assert rolled == [["p"]]


def test_wals_of_other_groups_are_older_if_they_were_begun_well_before_the_open_ones(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such groups belong to servers that died before the copy, and whose queues were drained."""
    monkeypatch.setattr(copy_border, "roll", lambda *_: Rolled(1))
    assert find_border(session_of(zk, hbase), "p", "run").others_before == 0, "nothing is known of other groups"
    hbase.start_server(OTHER)
    for server, number in ((SERVER, 5_000), (SERVER, 100_000), (OTHER, 90_000)):
        hbase.add_wal(server, "p", wal(number, server))
    hbase.add_wal(SERVER, f"p-{DEAD}", wal(7, DEAD))
    assert find_border(session_of(zk, hbase), "p", "run").others_before == 60_000, "clocks may differ by half a minute"


@pytest.mark.parametrize(("here", "there"), [((7, 8), (7,)), ((7,), (7, 8))])
def test_a_group_that_is_just_moving_has_its_newest_wal_of_both_places(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch, here: tuple[int, ...], there: tuple[int, ...]
) -> None:
    """In the classic layouts a queue is copied before it is deleted."""
    monkeypatch.setattr(copy_border, "roll", lambda *_: Rolled(1))
    for server, queue, numbers in ((SERVER, f"p-{DEAD}", here), (DEAD, "p", there)):
        for number in numbers:
            for provider in ("", ".regiongroup-0"):
                hbase.add_wal(server, queue, wal(number, DEAD, provider))
    expected = {f"{group(DEAD)}{provider}": wal(8, DEAD, provider) for provider in ("", ".regiongroup-0")}
    assert find_border(session_of(zk, hbase), "p", "run").groups == expected


def test_a_server_that_does_not_roll_is_named(zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_border, "roll", lambda *_: Rolled(1, {SERVER: "it did not answer within 30 s"}))
    with pytest.raises(NotRolled, match=f"1 RegionServers .*{SERVER}: it did not answer"):
        find_border(session_of(zk, hbase), "p", "run")

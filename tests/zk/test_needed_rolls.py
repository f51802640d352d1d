"""Batches roll the servers that may have written edits for a managed peer since their last roll, and no others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import HBaseZNodes
from tests.zk.rolling_site import PEER, RollingSite, rolling_site
from walferry.base.protos import hbase_pb2 as pb
from walferry.replication.queues import needed_rolls, rolling
from walferry.replication.queues.needed_rolls import ServerRolls, choose, note, read_rolls
from walferry.replication.source.cluster import SourceCluster
from walferry.runs.steps import batch
from walferry.runs.values import RollReport

ORDERS, LOCAL, OTHERS = "orders", "scratch", "ns:others"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """These batches follow each other at once."""
    monkeypatch.setattr(needed_rolls, "APART_MS", 1)


@pytest.fixture
def site(hbase: HBaseZNodes) -> Iterator[RollingSite]:
    with rolling_site(hbase, {ORDERS: 1, LOCAL: 0, OTHERS: 1}, servers=2) as site:
        yield site


@pytest.fixture
def roll(zookeeper, hbase: HBaseZNodes) -> Callable[[], RollReport]:
    """Rolls as a batch does."""
    at = SourceCluster(quorum=zookeeper.quorum, wal_root="file:///none", znode_parent=hbase.nodes.base, root=hbase.root)

    def roll() -> RollReport:
        report = batch.roll(at, [PEER])
        assert report is not None
        return report

    return roll


@pytest.fixture
def quiet(site: RollingSite, roll: Callable[[], RollReport]) -> RollingSite:
    """The site after the two batches in which it has been rolled; nothing was written."""
    roll()
    roll()
    for server in site.servers:
        server.rolls = 0
    return site


def test_an_idle_cluster_is_rolled_by_its_first_two_batches_and_then_no_more(
    site: RollingSite, roll: Callable[[], RollReport]
) -> None:
    assert [(report.servers, report.spared) for report in (roll() for _ in range(5))] == [(2, 0), (2, 0), *[(0, 2)] * 3]
    assert site.rolls == [2, 2]


def test_a_write_has_its_server_rolled_by_this_batch_and_the_next_as_it_may_be_counted_before_it_is_in_the_wal(
    quiet: RollingSite, roll: Callable[[], RollReport]
) -> None:
    quiet.servers[1].write(ORDERS)
    assert [roll().servers for _ in range(4)] == [1, 1, 0, 0]
    assert quiet.rolls == [0, 2]


def test_a_server_that_is_always_written_to_is_rolled_by_each_batch(quiet: RollingSite, roll: Callable[[], RollReport]) -> None:
    for _ in range(3):
        quiet.servers[0].write(ORDERS, 1000)
        assert roll().servers == 1
    assert quiet.rolls == [3, 0]


@pytest.mark.parametrize("table", [LOCAL, "hbase:namespace"])
def test_writes_that_no_peer_wants_roll_no_server(quiet: RollingSite, roll: Callable[[], RollReport], table: str) -> None:
    quiet.servers[0].write(table, 1000)
    assert roll().servers == 0


def test_a_table_outside_a_peer_s_choice_is_not_wanted_until_the_choice_changes(
    quiet: RollingSite, hbase: HBaseZNodes, roll: Callable[[], RollReport]
) -> None:
    chosen = pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=ORDERS.encode()))
    hbase.zk.delete(hbase.nodes.peer(PEER), recursive=True)
    hbase.add_peer(PEER, config={"walferry.managed": "true"}, replicate_all=False, table_cfs=[chosen])
    assert [roll().servers for _ in range(3)] == [2, 2, 0]
    quiet.servers[0].write(OTHERS)
    assert roll().servers == 0
    quiet.servers[0].write(ORDERS)
    assert roll().servers == 1


def test_a_table_of_another_managed_peer_is_wanted_even_while_that_peer_is_paused(
    quiet: RollingSite, hbase: HBaseZNodes, roll: Callable[[], RollReport]
) -> None:
    chosen = pb.TableCF(table_name=pb.TableName(namespace=b"default", qualifier=ORDERS.encode()))
    hbase.zk.delete(hbase.nodes.peer(PEER), recursive=True)
    hbase.add_peer(PEER, config={"walferry.managed": "true"}, replicate_all=False, table_cfs=[chosen])
    hbase.add_peer("other", config={"walferry.managed": "true", "walferry.paused": "true"})
    assert [roll().servers for _ in range(2)] == [0, 0]
    quiet.servers[0].write(OTHERS)
    assert roll().servers == 1


def test_a_table_that_the_master_does_not_describe_may_be_wanted(quiet: RollingSite, roll: Callable[[], RollReport]) -> None:
    quiet.servers[0].numbers["new,,1.e."] = [1, 0, 0]
    assert [roll().servers for _ in range(3)] == [1, 1, 0]
    quiet.servers[0].write("new")
    assert roll().servers == 1


@pytest.mark.parametrize("numbers", [[5, 1, 0], [5, 0, 1], None])
def test_a_region_that_was_closed_since_has_its_server_rolled_whatever_it_counts(
    quiet: RollingSite, roll: Callable[[], RollReport], numbers: list[int] | None
) -> None:
    """A region that is opened again counts from 0, and may have come to the same count."""
    region = f"{ORDERS},,1.e."
    quiet.servers[0].write(ORDERS, 5)
    assert [roll().servers for _ in range(3)] == [1, 1, 0]
    if numbers is None:
        del quiet.servers[0].numbers[region]
    else:
        quiet.servers[0].numbers[region] = numbers
    assert roll().servers == 1


def test_a_server_that_did_not_roll_is_rolled_again_by_the_next_batches(
    quiet: RollingSite, roll: Callable[[], RollReport]
) -> None:
    server = quiet.servers[0]
    server.write(ORDERS)
    server.rolls_refused = True
    for _ in range(3):
        report = roll()
        assert (report.servers, len(report.problems), report.spared) == (0, 1, 1)
    server.rolls_refused = False
    assert [roll().servers for _ in range(3)] == [1, 1, 0]


def test_a_server_that_does_not_say_what_it_counts_is_rolled_by_each_batch(
    quiet: RollingSite, roll: Callable[[], RollReport]
) -> None:
    quiet.servers[1].counts = False
    assert [roll().servers for _ in range(3)] == [1, 1, 1]
    quiet.servers[1].counts = True
    assert roll().servers == 0


def test_all_servers_are_rolled_if_the_tables_are_not_known_and_none_is_asked(
    quiet: RollingSite, roll: Callable[[], RollReport]
) -> None:
    asked = [server.asked for server in quiet.servers]
    quiet.master_silent = True
    assert [roll().servers for _ in range(2)] == [2, 2]
    assert [server.asked for server in quiet.servers] == asked
    quiet.master_silent = False
    assert roll().servers == 0


@pytest.mark.parametrize("value", [b"", b"no JSON", b"[]", b'{"s": {"numbers": 1}}'])
def test_all_servers_are_rolled_if_the_record_cannot_be_read(
    quiet: RollingSite, hbase: HBaseZNodes, zk: KazooClient, roll: Callable[[], RollReport], value: bytes
) -> None:
    zk.set(session_of(zk, hbase).own.rolls, value)
    assert [roll().servers for _ in range(3)] == [2, 2, 0]


def test_a_server_that_was_started_again_is_another_server_and_the_old_one_is_forgotten(
    quiet: RollingSite, hbase: HBaseZNodes, zk: KazooClient, roll: Callable[[], RollReport]
) -> None:
    old = quiet.servers[0]
    hbase.stop_server(old.name)
    old.name = f"{old.name}1"
    quiet.servers.remove(old)
    quiet.add(old)
    assert [roll().servers for _ in range(3)] == [1, 1, 0]
    assert read_rolls(session_of(zk, hbase)).keys() == {server.name for server in quiet.servers}


def test_overlapping_runs_may_note_their_rolls_in_any_order(quiet: RollingSite, hbase: HBaseZNodes, zk: KazooClient) -> None:
    session = session_of(zk, hbase)
    server = quiet.servers[0]
    server.write(ORDERS)
    early = choose(session)
    server.write(ORDERS)
    late = choose(session)
    note(session, late, ())
    note(session, early, ())
    assert server.name in map(str, choose(session).needed)  # a roll too many, and none too few
    note(session, late, ())
    note(session, choose(session), ())
    assert choose(session).needed == frozenset()


def test_rolls_that_follow_each_other_at_once_count_as_one_as_an_edit_may_not_be_written_yet(
    quiet: RollingSite, roll: Callable[[], RollReport], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needed_rolls, "APART_MS", 1000)
    quiet.servers[0].write(ORDERS)
    began = time.monotonic()
    while roll().servers:
        assert time.monotonic() < began + 20
    assert quiet.rolls[0] > 2
    assert time.monotonic() - began > 1


def test_it_is_noted_until_when_a_server_s_open_wal_had_nothing_for_a_peer(
    quiet: RollingSite, hbase: HBaseZNodes, zk: KazooClient, roll: Callable[[], RollReport]
) -> None:
    session, (one, two) = session_of(zk, hbase), [server.name for server in quiet.servers]
    assert {known.quiet_ms for known in read_rolls(session).values()} == {0}
    before = int(time.time() * 1000)
    roll()
    seen = read_rolls(session)
    assert all(known.quiet_ms >= before for known in seen.values())
    quiet.servers[0].write(ORDERS)
    roll()
    now = read_rolls(session)
    assert now[one].quiet_ms == 0
    assert now[two].quiet_ms > seen[two].quiet_ms


@pytest.mark.slow
def test_a_thousand_servers_are_asked_side_by_side_and_noted_in_one_znode(
    site: RollingSite, hbase: HBaseZNodes, zk: KazooClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred regions of each are compared. These servers answer in this process, and do nothing when they roll."""
    monkeypatch.setattr(rolling, "CALLS_SECONDS", 120.0)
    monkeypatch.setattr(needed_rolls, "CALLS_SECONDS", 120.0)
    (template, other), session = site.servers, session_of(zk, hbase)
    for server in (template, other):
        hbase.stop_server(server.name)
    template.numbers = {f"{ORDERS},{number:08},1.{number:032}.": [number, number, 3] for number in range(200)}
    host, port, _ = template.name.split(",")
    names = [f"{host},{port},{1800000000000 + number}" for number in range(1000)]
    for name in names:
        site.add(replace(template, name=name))
    began = time.monotonic()
    choice = choose(session)
    decided = time.monotonic()
    failures = rolling._ask(choice.needed, session.source.login)
    asked = time.monotonic()
    note(session, choice, failures)
    noted = time.monotonic()
    seconds = decided - began, asked - decided, noted - asked
    print(f"1,000 servers: {seconds[0]:.2f} s to decide, {seconds[1]:.2f} s to ask for rolls, {seconds[2]:.3f} s to note")
    assert (len(choice.numbers), len(choice.needed), len(failures)) == (1000, 1000, 0)
    assert len(zk.get(session.own.rolls)[0]) < 100_000
    assert read_rolls(session)[names[-1]] == ServerRolls(choice.numbers[min(choice.numbers)], choice.at_ms, choice.at_ms)
    note(session, replace(choice, at_ms=choice.at_ms + 1), failures)
    assert (len(choose(session).needed), len(choose(session).spared)) == (0, 1000)

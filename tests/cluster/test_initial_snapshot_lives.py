"""Initial snapshots of tables with a past: no edits from before the copy come back, and a crash loses no part of the copy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from embedded.client import GLOBAL
from embedded.wire import delete_row, put
from tests.cluster.conftest import Sides
from tests.cluster.copies import Copies
from tests.cluster.replaying import now, ship_again
from tests.cluster.walferry_runs import roll, ship, source_of
from walferry.base.protos import hbase_pb2 as pb
from walferry.hbase.cluster import master as active_master
from walferry.hbase.rpc import master
from walferry.initial_snapshot.region_copy import RegionOutcome, RegionTask, copy_regions
from walferry.load.errors import CopyRefused
from walferry.replay.interval import Interval
from walferry.replication.source.session import open_session

OLD = [put(f"old{i:03}", {"f:q": b"old"}) for i in range(100)]
NEW = [put("new", {"f:q": b"new"})]
REGIONS, ROWS, SIDE_BY_SIDE = 16, 400, 16
COMPACTED_SECONDS = 60


@pytest.fixture
def copies(sides: Sides, peer: str) -> Copies:
    return Copies(sides, peer)


@pytest.mark.parametrize("how", ["truncated", "dropped and created"])
def test_a_table_that_began_anew_after_the_peer_was_added_has_only_its_new_rows(
    sides: Sides, copies: Copies, unique: Callable[[str], str], how: str
) -> None:
    table, began = unique("t"), now()
    sides.source.create_table(table, {"f": GLOBAL})
    sides.source.write(table, OLD)
    if how == "truncated":
        sides.source.empty_table(table)
    else:
        sides.source.drop_table(table)
        sides.source.create_table(table, {"f": GLOBAL})
    sides.source.write(table, NEW)
    assert copies.run(table).state.complete
    sides.source.write(table, [put("later", {"f:q": b"later"})])
    roll(sides.at, copies.peer)
    again = ship_again(sides.at, copies.peer, Interval(began, now()), what_is_there=True)  # from before the copy on
    assert not any(each.failed for each in again), again
    assert sum(each.editsBeforeCopy for each in again) > 0
    assert sides.peer_cluster.count_rows(table) == 2
    (summary,) = ship(sides.at, copies.peer)
    assert sides.peer_cluster.count_rows(table) == sides.source.count_rows(table) == 2
    assert summary.logEditsFiltered["copied"] > 0
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same


ODD_FAMILIES = (b"\xe9t\xe9", "été".encode(), b"L#0")
LATEST = 2**63 - 2  # HBase puts the present time in place of the largest number
ODD_ROWS = (b"\0", b"\0\0", b"a,b", b"m\xff\0", b"\xff", b"\xff\xff")


def test_of_a_table_of_odd_names_keys_and_times_nothing_old_comes_back_and_nothing_is_lost(
    sides: Sides, copies: Copies, unique: Callable[[str], str]
) -> None:
    namespace, name = unique("ns"), unique("t")
    table = f"{namespace}:{name}"
    sides.source.create_namespace(namespace)
    schema = pb.TableSchema(table_name=pb.TableName(namespace=namespace.encode(), qualifier=name.encode()))
    schema.attributes.add(first=b"REGION_REPLICATION", second=b"2")
    for family in ODD_FAMILIES:
        attributes = schema.column_families.add(name=family).attributes
        attributes.add(first=b"REPLICATION_SCOPE", second=b"1")
        attributes.add(first=b"VERSIONS", second=b"3")
    with open_session(sides.at) as session, master.connect(active_master(session.zk, session.nodes)) as connection:
        master.create_table(connection, schema, [b"\0\1", b"\xff"])
    columns = [family + b":" + qualifier for family in ODD_FAMILIES for qualifier in (b"", b"q\0")]
    sides.source.write(table, [put(b"old" + row, dict.fromkeys(columns, b"old")) for row in ODD_ROWS])
    sides.source.empty_table(table)
    times = (None, 0, 1, LATEST)
    sides.source.write(table, [put(row, dict.fromkeys(columns, b"v"), timestamp=at) for row in ODD_ROWS for at in times])
    copied = copies.run(table)
    assert (copied.errors, copied.state.complete, copied.state.by_scan) == ((), True, ())
    sides.source.write(table, [put(b"later" + row, dict.fromkeys(columns, b"w"), timestamp=0) for row in ODD_ROWS])
    sides.source.write(table, [delete_row(b"\xff\xff", timestamp=0), delete_row(b"\0")])
    (summary,) = ship(sides.at, copies.peer)
    assert summary.logEditsFiltered["copied"] > 0
    assert sides.peer_cluster.count_rows(table) == sides.source.count_rows(table) > len(ODD_ROWS)
    assert sides.source.compare(table, sides.peer_cluster, raw=True).same
    # HBase replays no edits of a family that is not UTF-8, and aborts after a crash
    for client in (sides.source, sides.peer_cluster):
        client.drop_table(table)


def test_of_a_region_that_moved_before_the_copy_neither_a_deleted_row_nor_an_old_value_comes_back(
    more_clusters, java_client, managed_peer, unique: Callable[[str], str]
) -> None:
    source_cluster, peer_hbase = more_clusters
    source, peer_cluster = java_client(source_cluster.address), java_client(peer_hbase.address)
    sides = Sides(source_cluster, peer_hbase, source, peer_cluster, source_of(source_cluster.address))
    table = unique("t")
    source.switch_balancer(False)
    source.create_table(table, {"f": GLOBAL})
    (region,) = source.regions(table)
    other = next(server for server in source.region_servers() if server != region.server)
    copies = Copies(sides, managed_peer(source_cluster.address, peer_hbase.address))
    source.write(table, [put("deleted", {"f:q": b"v"}, timestamp=5), put("changed", {"f:q": b"old"}, timestamp=5)])
    source.move_region(region.encoded_name, other)
    source.write(table, [delete_row("deleted", timestamp=6), put("changed", {"f:q": b"new"}, timestamp=5)])
    source.flush(table)
    source.major_compact(table)
    give_up = time.monotonic() + COMPACTED_SECONDS
    while any(cell.row == b"deleted" for cell in source.scan_all(table, raw=True)):
        assert time.monotonic() < give_up
        time.sleep(0.2)
    assert copies.run(table).state.complete
    assert all(not summary.failed for summary in ship(sides.at, copies.peer))
    assert peer_cluster.scan_all(table) == source.scan_all(table)


def test_a_copy_goes_on_with_a_table_that_was_truncated_only_once_it_is_truncated_at_the_peer_cluster_too(
    sides: Sides, copies: Copies, unique: Callable[[str], str]
) -> None:
    table = unique("t")
    sides.source.create_table(table, {"f": GLOBAL}, [b"m"])
    sides.source.write(table, [put(f"{row}-old", {"f:q": b"old"}) for row in "az"])

    def only_one(tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        return list(copy_regions(sides.at, copies.peer, tasks[:1]))

    assert not copies.run(table, run="killed", spread=only_one).state.complete
    sides.source.empty_table(table)
    sides.source.write(table, [put("a-new", {"f:q": b"new"})])
    with pytest.raises(CopyRefused, match=f"table {table} .* since its copy began"):
        copies.run(table, run="resumed")
    sides.peer_cluster.empty_table(table)
    assert copies.run(table, run="resumed").state.complete
    assert all(not summary.failed for summary in ship(sides.at, copies.peer))
    assert [cell.row for cell in sides.peer_cluster.scan_all(table)] == [b"a-new"]


def test_many_regions_are_copied_into_one_and_nothing_is_hidden_or_lost_when_its_server_dies(
    sides: Sides, copies: Copies, unique: Callable[[str], str]
) -> None:
    """A region that is being flushed gives a load no number. HBase would then trust the numbers that the source gave."""
    table = unique("t")
    sides.source.create_table(table, {"f": GLOBAL}, [b"r%02d" % i for i in range(1, REGIONS)])
    sides.peer_cluster.create_table(table, {"f": GLOBAL})
    for region in range(REGIONS):
        sides.source.write(table, [put(f"r{region:02}-{i:03}", {"f:q": b"v"}) for i in range(ROWS)], one_by_one=True)

    def spread(tasks: Sequence[RegionTask]) -> list[RegionOutcome]:
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            parts = pool.map(lambda n: list(copy_regions(sides.at, copies.peer, tasks[n::SIDE_BY_SIDE])), range(SIDE_BY_SIDE))
            return [outcome for part in parts for outcome in part]

    copied = copies.run(table, spread=spread)
    assert (copied.errors, copied.state.complete, copied.state.by_scan) == ((), True, ())
    assert sides.peer_cluster.count_rows(table) == REGIONS * ROWS
    new = [put(f"r{region:02}-new{i}", {"f:q": b"new"}) for region in range(REGIONS) for i in range(3)]
    sides.source.write(table, new)
    assert all(not summary.failed for summary in ship(sides.at, copies.peer))
    sides.peer_hbase.kill()
    sides.peer_hbase.start()
    assert sides.peer_cluster.count_rows(table) == REGIONS * ROWS + len(new)
    assert sides.source.compare(table, sides.peer_cluster).same

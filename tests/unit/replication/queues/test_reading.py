"""The WALs of a queue by group and age, whether they are all made at once or each when it is asked for."""

from __future__ import annotations

from walferry.hbase.errors import PositionError
from walferry.hbase.names import parse_queue_id, parse_wal_name
from walferry.replication.queues.queue import NamedWals, Queue, QueuedWal, closed_groups, groups, positions
from walferry.replication.queues.reading import queue_of

SERVER = "rs-1.example.org,16020,1700000000001"
GROUP = SERVER.replace(",", "%2C")
QUEUE = f"/hbase/replication/rs/{SERVER}/p"
OLD, NEW = f"{GROUP}.999", f"{GROUP}.1000"
META = f"{GROUP}.7.meta"
OTHER = f"{GROUP}.{GROUP}.regiongroup-0.5"
IN_ORDER = [META, OLD, NEW, OTHER]


def queued(name: str, position: int | PositionError = 0) -> QueuedWal:
    return QueuedWal(parse_wal_name(name), f"{QUEUE}/{name}", position)


def queue(wals: tuple[QueuedWal, ...] | NamedWals, live: bool = True) -> Queue:
    return Queue(SERVER, parse_queue_id("p"), QUEUE, wals, live)


def test_wals_are_ordered_by_group_and_age_and_other_children_are_problems() -> None:
    found = queue_of(SERVER, parse_queue_id("p"), QUEUE, sorted([*IN_ORDER, "lock"]), {}, server_is_live=True)
    assert [wal.name.text for wal in found.wals] == IN_ORDER
    assert {wal.position_or_problem for wal in found.wals} == {None}
    (problem,) = found.problems
    assert problem.startswith(f"{QUEUE}/lock: 'lock' is not a WAL's name")


def test_each_group_has_its_wals_and_a_live_server_writes_to_the_newest_of_each() -> None:
    wals = tuple(map(queued, IN_ORDER))
    assert groups(queue(wals)) == {GROUP: wals[:3], OTHER.rpartition(".")[0]: wals[3:]}
    assert closed_groups(queue(wals)) == {GROUP: wals[:2], OTHER.rpartition(".")[0]: ()}
    assert closed_groups(queue(wals, live=False)) == groups(queue(wals))
    assert groups(queue(())) == {}


def test_wals_that_are_made_when_they_are_asked_for_are_the_same_ones() -> None:
    unreadable = PositionError(f"{QUEUE}/{OTHER}", "it is no position")
    begun = {wal.path: wal for wal in (queued(META, 500), queued(OTHER, unreadable))}
    named, made = NamedWals(QUEUE, IN_ORDER, begun), (queued(META, 500), queued(OLD), queued(NEW), queued(OTHER, unreadable))
    assert (len(named), tuple(named), named[0], named[-1]) == (4, made, made[0], made[-1])
    assert (tuple(named[1:3]), tuple(named[4:])) == (made[1:3], ())
    for of in (groups, closed_groups):
        assert {group: tuple(wals) for group, wals in of(queue(named)).items()} == of(queue(made))
    assert list(positions(named)) == list(positions(made)) == [(META, 500), (OLD, 0), (NEW, 0), (OTHER, unreadable)]

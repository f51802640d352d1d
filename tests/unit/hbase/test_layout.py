"""Paths in ZooKeeper."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.hbase.layout import OwnZNodes, QueueLayout, ZNodes, quoted


def test_paths_are_those_of_hbase() -> None:
    nodes = ZNodes("/hbase-secure")
    assert nodes.wal("h,1,2", "p-d,1,2", "w.3") == "/hbase-secure/replication/rs/h,1,2/p-d,1,2/w.3"
    assert nodes.peer_state("p") == "/hbase-secure/replication/peers/p/peer-state"


def test_the_oldest_layout_has_a_level_more_above_its_queues_and_none_above_the_lock() -> None:
    classic, oldest = ZNodes("/hbase", QueueLayout.CLASSIC), ZNodes("/hbase", QueueLayout.CLASSIC_PEERS)
    assert classic.queue("h,1,2", "p") == "/hbase/replication/rs/h,1,2/p"
    assert oldest.queue("h,1,2", "p") == "/hbase/replication/rs/h,1,2/peers/p"
    assert classic.lock("h,1,2") == oldest.lock("h,1,2") == "/hbase/replication/rs/h,1,2/lock"
    for nodes in (classic, oldest):
        assert nodes.place(nodes.queue("h,1,2", "p-d,1,2")) == ("h,1,2", "p-d,1,2")


def test_a_lock_is_no_queue_where_there_are_locks() -> None:
    assert ZNodes("/hbase").is_queue("lock")  # a peer may have that name
    assert not ZNodes("/hbase", QueueLayout.CLASSIC).is_queue("lock")


def test_our_own_paths_lie_outside_and_keep_clusters_apart() -> None:
    one, other = (OwnZNodes("/walferry", ZNodes(base)).lease("p", "h%2C1%2C2") for base in ("/hbase", "/hbase/a"))
    assert one == "/walferry/leases/%2Fhbase/p/h%252C1%252C2"
    assert other != one


@given(st.text(max_size=20), st.text(max_size=20))
def test_quoted_names_are_single_znode_names_and_differ(one: str, other: str) -> None:
    name = quoted(one)
    assert name
    assert "/" not in name
    assert name not in (".", "..")
    assert name.isascii()
    assert (name == quoted(other)) == (one == other)


# Each of our own paths, as it is made of one name of HBase's.
PATHS = {
    "lease of a group": lambda own, name: own.lease("p", name),
    "lease of a peer": lambda own, name: own.lease(name, "g"),
    "claim": lambda own, name: own.claim(name),
    "history": lambda own, name: own.history(name),
    "runs": lambda own, name: own.runs(name),
    "leases": lambda own, name: own.leases(name),
    "peer lock": lambda own, name: own.peer_lock(name),
    "shipping": lambda own, name: own.shipping(name),
    "archiving": lambda own, name: own.archiving(name),
    "initial snapshot": lambda own, name: own.initial_snapshot(name),
    "loading": lambda own, name: own.loading(name, "run"),
    "loading of a run": lambda own, name: own.loading("p", name),
    "loads": lambda own, name: own.loads(name),
    "region plan": lambda own, name: own.region_plan(name),
    "cursor of a peer": lambda own, name: own.cursor(name, "key"),
    "cursor": lambda own, name: own.cursor("p", name),
}


@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
@given(one=st.text(min_size=1, max_size=20), other=st.text(min_size=1, max_size=20))
def test_each_path_has_a_name_as_one_level_that_is_its_own(path: Callable[[OwnZNodes, str], str], one: str, other: str) -> None:
    own = OwnZNodes("/walferry", ZNodes("/hbase"))
    made, plain = path(own, one), path(own, "x")
    assert made.count("/") == plain.count("/")
    assert not {"", ".", ".."} & set(made.split("/")[1:])
    assert made.isprintable()
    assert (made == path(own, other)) == (one == other)

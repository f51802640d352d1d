"""The ids of a serial peer's regions are raised together with positions, as HBase raises them, against a real ZooKeeper."""

from __future__ import annotations

import pytest
from kazoo.client import KazooClient

from tests.sessions import session_of
from tests.zk.hbase_znodes import OTHER, SERVER, HBaseZNodes, expire, prefixed, wal
from walferry.hbase.errors import PositionError
from walferry.hbase.values import encode_position
from walferry.replication.queues import last_pushed as module
from walferry.replication.queues.errors import LeaseLost
from walferry.replication.queues.last_pushed import NOTHING_PUSHED, last_pushed
from walferry.replication.queues.lease import Lease, acquire

GROUP = wal(0).rpartition(".")[0]
REGION, ANOTHER = "ab12" + "0" * 28, "ab12" + "1" * 28


def take(zk: KazooClient, hbase: HBaseZNodes) -> Lease:
    return acquire(session_of(zk, hbase), "p", GROUP, "run-1")


def pushed(hbase: HBaseZNodes, region: str) -> int:
    return last_pushed(session_of(hbase.zk, hbase), "p", region)


def test_ids_are_written_as_hbase_writes_them(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    take(zk, hbase).register_position(wal(1), 100, {REGION: 300})
    path = f"{hbase.nodes.base}/replication/regions/ab/12/{'0' * 28}-p"
    assert zk.get(path)[0] == b"PBUF\x08\xac\x02"
    assert (pushed(hbase, REGION), pushed(hbase, ANOTHER)) == (300, NOTHING_PUSHED)


def test_ids_are_raised_and_never_lowered(zk: KazooClient, hbase: HBaseZNodes) -> None:
    hbase.add_wal(SERVER, "p", wal(1))
    lease = take(zk, hbase)
    lease.register_position(wal(1), 100, {REGION: 7, ANOTHER: 7})
    lease.register_position(wal(1), 200, {REGION: 5, ANOTHER: 9})
    assert (pushed(hbase, REGION), pushed(hbase, ANOTHER)) == (7, 9)


def test_a_position_and_its_ids_are_one_write(zk: KazooClient, hbase: HBaseZNodes) -> None:
    path = hbase.add_wal(SERVER, "p", wal(1))
    take(zk, hbase).register_position(wal(1), 100, {REGION: 7})
    assert zk.get(path)[1].mzxid == zk.get(hbase.nodes.last_pushed_id(REGION, "p"))[1].czxid


def test_ids_that_another_group_raises_meanwhile_are_read_again(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hbase.add_wal(SERVER, "p", wal(1))
    lease, id_path = take(zk, hbase), hbase.nodes.last_pushed_id(REGION, "p")
    for theirs, ours, then in ((3, 5, 5), (8, 7, 8)):
        read_all = module.read_all

        def raised_after(client: KazooClient, paths: list[str], theirs: int = theirs, read_all: object = read_all) -> object:
            found = read_all(client, paths)  # type: ignore[operator]
            if id_path in paths:
                monkeypatch.undo()
                hbase.zk.ensure_path(id_path)
                hbase.zk.set(id_path, prefixed(encode_position(theirs)))
            return found

        monkeypatch.setattr(module, "read_all", raised_after)
        lease.register_position(wal(1), 100 * then, {REGION: ours})
        assert pushed(hbase, REGION) == then
    assert zk.get(path)[0] == encode_position(800)


def test_more_ids_than_one_write_holds_come_before_the_position(
    zk: KazooClient, hbase: HBaseZNodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IDS_A_MULTI", 10)
    path = hbase.add_wal(SERVER, "p", wal(1))
    regions = [f"{number:032x}" for number in range(35)]
    take(zk, hbase).register_position(wal(1), 100, dict.fromkeys(regions, 7))
    written = [zk.get(hbase.nodes.last_pushed_id(region, "p"))[1].czxid for region in regions]
    assert len(set(written)) == 4
    assert max(written) == zk.get(path)[1].mzxid


@pytest.mark.parametrize("moved", [False, True], ids=["where it was", "claimed meanwhile"])
def test_a_wal_leaves_its_queue_after_its_ids(zk: KazooClient, hbase: HBaseZNodes, moved: bool) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    lease = take(zk, hbase)
    lease.register_position(wal(1), 100)
    if moved:
        hbase.stop_server(SERVER)
        hbase.start_server(OTHER)
        hbase.claim(SERVER, "p", OTHER)
    assert lease.remove_wal(wal(1), {REGION: 7})
    assert pushed(hbase, REGION) == 7


def test_a_holder_that_lost_its_lease_raises_no_id(zk: KazooClient, hbase: HBaseZNodes) -> None:
    for timestamp in (1, 2):
        hbase.add_wal(SERVER, "p", wal(timestamp))
    lease = take(zk, hbase)
    lease.register_position(wal(1), 100, {REGION: 7})
    expire(zk)
    for write in (lambda: lease.register_position(wal(1), 200, {REGION: 9}), lambda: lease.remove_wal(wal(1), {REGION: 9})):
        with pytest.raises(LeaseLost):
            write()
    assert pushed(hbase, REGION) == 7


def test_an_id_that_is_no_number_is_named_and_nothing_is_written(zk: KazooClient, hbase: HBaseZNodes) -> None:
    path = hbase.add_wal(SERVER, "p", wal(1))
    id_path = hbase.nodes.last_pushed_id(REGION, "p")
    hbase.zk.create(id_path, b"PBUF\xff", makepath=True)
    with pytest.raises(PositionError, match=id_path):
        take(zk, hbase).register_position(wal(1), 100, {REGION: 7})
    assert zk.get(path)[0] == b""

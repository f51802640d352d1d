"""Shipments arrive in the peer cluster's regions, whatever these and their servers do meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import pytest

from tests.unit.hbase.rpc.fake_server import Request, hang_up, silence
from tests.unit.hbase.wal.encoder import Cell, Entry
from tests.unit.replication.filters.test_entry_filter import entry, put
from tests.unit.replication.sinks.hbase.edits import OTHERS, ids_attribute, mutations_of, shipment_of
from tests.unit.replication.sinks.hbase.scripted_peer_cluster import NOT_SERVING, OpenRegion, ScriptedPeerCluster
from tests.unit.replication.sinks.hbase.test_replicate import NO_FILES, USER, Time
from walferry.base.security.login import Login
from walferry.base.zk.right import Right
from walferry.hbase.rpc.codec import KEY_VALUE_CODEC_WITH_TAGS
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import NotAuthenticated
from walferry.hbase.tables.errors import RegionUnavailable, TooManyRegions
from walferry.replication.peers.settings import PeerSettings
from walferry.replication.sinks.answers import Answers
from walferry.replication.sinks.errors import PeerClusterUnreachable, Stopped
from walferry.replication.sinks.hbase import direct as module
from walferry.replication.sinks.hbase.connections import Share
from walferry.replication.sinks.hbase.direct import DirectRefused, DirectShipper
from walferry.replication.sinks.hbase.locations import Locations
from walferry.replication.sinks.hbase.rounds import Most
from walferry.replication.sinks.hbase.tries import SETTLE_SECONDS
from walferry.replication.sinks.tries import SendTerms

BUSY = "org.apache.hadoop.hbase.RegionTooBusyException over the memstore's limit"


def shipper(
    peer_cluster: ScriptedPeerCluster,
    time: Time,
    *,
    stop: threading.Event | None = None,
    answers: Answers | None = None,
    login: Login = USER,
    share: Share | None = None,
    right: Right | None = None,
    **settings: Any,
) -> DirectShipper:
    terms = SendTerms(
        "peer:2181:/hbase", stop or threading.Event(), login, PeerSettings(**settings), answers or Answers(), right or Right(),
        clock=time.clock, wait=time.wait,
    )  # fmt: skip
    return DirectShipper(Locations(peer_cluster.as_tables, time.clock), terms, share)


def ship(peer_cluster: ScriptedPeerCluster, time: Time, *edits: Entry, deadline: float = 2000, **options: Any) -> DirectShipper:
    direct = shipper(peer_cluster, time, **options)
    try:
        direct.ship(shipment_of(edits), deadline)
    finally:
        direct.close()
    return direct


def rows(*keys: bytes, value: bytes = b"v", table: bytes = b"t") -> Entry:
    return entry(*(put(row=key, value=value) for key in keys), table=table)


def halves(one: int | None = 0, other: int | None = 1) -> list[OpenRegion]:
    """Table t in two regions."""
    return [OpenRegion(b"t", b"", b"m", one), OpenRegion(b"t", b"m", b"", other)]


def latest_of(edits: Sequence[Entry]) -> dict[tuple[bytes, bytes], dict[bytes, bytes]]:
    found: dict[tuple[bytes, bytes], dict[bytes, bytes]] = {}
    for mutation in mutations_of(edits):
        for cell in mutation.cells:
            data = cell.encode()
            found.setdefault((mutation.table, cell.row), {})[data[12 : 12 + int.from_bytes(data[4:8])]] = cell.value
    return found


def test_settings_of_ours_that_cannot_be_right_are_told_at_once_and_nothing_else_is_tried():
    time = Time()
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        with pytest.raises(NotAuthenticated, match=r"/no/such\.pem: No such file"):
            ship(peer_cluster, time, rows(b"a", b"z"), login=NO_FILES)
        assert peer_cluster.multis == []
    assert time.sleeps == []


def once(change: Callable[[], None]) -> Callable[[int, Any], None]:
    """Call `change` before the first Multi."""
    called: list[int] = []

    def before(server: int, _: Any) -> None:
        if not called:
            called.append(server)
            change()

    return before


def test_each_server_gets_one_request_with_what_belongs_to_its_regions():
    edits = [rows(b"a", b"z"), entry(Cell(b"a", b"f", b"q", 1, 8, b"")), rows(b"b")]
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        direct = ship(peer_cluster, Time(), *edits)
        assert peer_cluster.latest() == latest_of(edits)
    assert sorted(server for server, _ in peer_cluster.multis) == [0, 1]
    assert (peer_cluster.lookups, direct.failed_batches) == (1, 0)
    for request in peer_cluster.requests:
        assert request.connection.service_name == "ClientService"
        assert request.connection.cell_block_codec_class == KEY_VALUE_CODEC_WITH_TAGS
        assert request.connection.user_info.effective_user == "u"
        assert not request.header.HasField("priority")
        assert 50_000 < request.header.timeout <= 60_000


def test_regions_are_looked_up_once_for_all_shipments_and_connections_are_kept():
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        direct = shipper(peer_cluster, Time())
        for _ in range(3):
            direct.ship(shipment_of([rows(b"a", b"z")]), 2000)
        direct.close()
        assert peer_cluster.lookups == 1
        assert [host.connections for host in peer_cluster.hosts] == [1, 1]


def test_a_shipment_that_is_too_much_for_one_request_goes_in_several_in_order(monkeypatch):
    monkeypatch.setattr(module, "MAX_ACTIONS", 3)
    edits = [rows(b"a", b"b", value=b"%d" % i) for i in range(5)]
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        direct = ship(peer_cluster, Time(), *edits)
        assert peer_cluster.latest() == latest_of(edits)
    assert len(peer_cluster.multis) == 4
    assert direct.failed_batches == 0


def test_rows_of_a_region_that_has_moved_follow_it_at_once_and_nothing_else_is_sent_again():
    time = Time()
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:

        def move() -> None:
            peer_cluster.regions[0].server = 1
            peer_cluster.tell()

        peer_cluster.before = once(move)
        direct = ship(peer_cluster, time, rows(b"a", b"z"))
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == {b"a": 1, b"z": 1}
    assert time.sleeps == []
    assert (peer_cluster.lookups, direct.failed_batches) == (2, 1)


def test_a_region_that_is_nowhere_for_a_while_is_waited_for_with_growing_sleeps():
    time = Time()
    with ScriptedPeerCluster(regions=halves(0, None)) as peer_cluster:

        def wait(seconds: float) -> bool:
            if len(time.sleeps) == 2:
                peer_cluster.regions[1].server = 1
                peer_cluster.tell()
            return Time.wait(time, seconds)

        direct = shipper(peer_cluster, time)
        direct._tries._wait = wait
        direct.ship(shipment_of([rows(b"a", b"z")]), 2000)
        direct.close()
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == {b"a": 1, b"z": 1}
    assert time.sleeps == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("lag", [0, 2], ids=["told at once", "told late"])
def test_the_rows_of_a_region_that_splits_go_to_its_daughters(lag):
    edits = [rows(*(b"%c" % c for c in range(97, 110)), value=b"%d" % i) for i in range(3)]
    time = Time()
    with ScriptedPeerCluster(regions=[OpenRegion(b"t", b"", b"", 0)]) as peer_cluster:

        def split() -> None:
            peer_cluster.regions[:] = halves(1, 0)
            if not lag:
                peer_cluster.tell()

        def wait(seconds: float) -> bool:
            if len(time.sleeps) + 1 == lag:
                peer_cluster.tell()
            return Time.wait(time, seconds)

        peer_cluster.before = once(split)
        direct = shipper(peer_cluster, time)
        direct._tries._wait = wait
        direct.ship(shipment_of(edits), 2000)
        direct.close()
        assert peer_cluster.latest() == latest_of(edits)
    assert len(time.sleeps) == lag


def test_the_rows_of_regions_that_merge_go_to_the_merged_one():
    edits = [rows(b"a", b"z", value=b"%d" % i) for i in range(3)]
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:

        def merge() -> None:
            peer_cluster.regions[:] = [OpenRegion(b"t", b"", b"", 1)]
            peer_cluster.tell()

        peer_cluster.before = once(merge)
        ship(peer_cluster, Time(), *edits)
        assert peer_cluster.latest() == latest_of(edits)


def test_rows_that_went_to_the_wrong_region_are_looked_up_again_though_the_server_says_not_to_retry():
    """As if hbase:meta had told of a region with other borders than it has."""
    with ScriptedPeerCluster(regions=halves(0, 0)) as peer_cluster:
        wide = peer_cluster.reported[0]
        peer_cluster.reported = [type(wide)(wide.name, b"", b"", wide.server)]
        direct = shipper(peer_cluster, Time())

        def before(server: int, _: Any) -> None:
            if len(peer_cluster.multis) == 1:
                peer_cluster.tell()

        peer_cluster.before = before
        direct.ship(shipment_of([rows(b"a", b"z")]), 2000)
        direct.close()
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == {b"a": 1, b"z": 1}
    assert peer_cluster.lookups == 4  # at first, after each failure, and after the sleep


def test_only_actions_that_have_failed_are_sent_again_with_what_follows_them_in_their_row():
    edits = [rows(b"a", b"b", b"c", value=b"%d" % i) for i in range(3)]
    failures = iter([None, None, None, BUSY])  # of the first actions, row by row: the first one of row b fails
    time = Time()
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        peer_cluster.judge = lambda region, row: next(failures, None)
        direct = ship(peer_cluster, time, *edits)
        assert peer_cluster.latest() == latest_of(edits)
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == {b"a": 3, b"b": 5, b"c": 3}
    assert time.sleeps == [1.0]
    assert (peer_cluster.lookups, direct.failed_batches) == (1, 1)  # a busy region is where it was


def test_cluster_ids_travel_and_are_never_mixed_in_one_group():
    edits = [rows(b"a"), entry(put(row=b"b"), ids=()), rows(b"a")]
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        ship(peer_cluster, Time(), *edits)
    values = {a.value for _, m in peer_cluster.multis for r in m.regionAction for x in r.action for a in x.mutation.attribute}
    assert values == {ids_attribute(m.ids) for m in mutations_of(edits)}


def test_a_dead_server_s_rows_wait_until_its_regions_are_elsewhere_and_other_servers_are_not_asked_again():
    time = Time()
    with ScriptedPeerCluster(servers=3, regions=halves(0, 1)) as peer_cluster:
        peer_cluster.kill(1)

        def wait(seconds: float) -> bool:
            if len(time.sleeps) == 2:
                peer_cluster.regions[1].server = 2
                peer_cluster.tell()
            return Time.wait(time, seconds)

        direct = shipper(peer_cluster, time)
        direct._tries._wait = wait
        direct.ship(shipment_of([rows(b"a", b"z")]), 2000)
        direct.close()
        assert [server for server, _ in peer_cluster.multis] == [0, 2]
    assert time.sleeps == [1.0, 2.0, 3.0]


def test_a_server_that_answers_nothing_gets_more_time_with_each_try():
    time, seen = Time(), []

    def reply(server: int, request: Request) -> bytes | None:
        seen.append(request.header.timeout)
        return silence(request) if len(seen) < 3 else None

    with ScriptedPeerCluster(servers=1, regions=halves(0, 0), reply=reply) as peer_cluster:
        ship(peer_cluster, time, rows(b"a"), call_timeout_seconds=0.1)
    assert [(timeout + 99) // 100 for timeout in seen] == [1, 2, 3]


def test_a_peer_cluster_that_is_down_is_tried_until_the_deadline():
    time = Time()
    with ScriptedPeerCluster(servers=1, regions=halves(0, 0)) as peer_cluster:
        peer_cluster.kill(0)
        with pytest.raises(PeerClusterUnreachable, match="until the deadline") as error:
            ship(peer_cluster, time, rows(b"a"), deadline=1020, patience_seconds=1e6)
    assert time.now == 1020
    assert "connection to" in error.value.last_error
    assert not error.value.answered
    assert error.value.tries == len(time.sleeps)


def test_a_region_that_stays_closed_ends_as_an_error_of_the_peer_cluster_s_own():
    time = Time()
    with ScriptedPeerCluster(servers=1, regions=halves(0, 0)) as peer_cluster:
        peer_cluster.regions[0].server = None
        with pytest.raises(PeerClusterUnreachable, match=r"NotServingRegionException: not here") as error:
            ship(peer_cluster, time, rows(b"a"), deadline=1020, patience_seconds=1e6)
    assert error.value.answered


def test_a_deadline_that_comes_while_the_peer_cluster_is_at_work_is_not_an_outage(monkeypatch):
    """What is acknowledged is progress: the rest is only late."""
    monkeypatch.setattr(module, "MAX_ACTIONS", 1)
    time = Time()
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:

        def slowly(server: int, _: Any) -> None:
            time.now += 600

        peer_cluster.before = slowly
        with pytest.raises(PeerClusterUnreachable) as error:
            ship(peer_cluster, time, *(rows(b"a") for _ in range(9)))
        assert len(peer_cluster.multis) == 2
    assert error.value.tries == 0


def test_being_told_to_stop_ends_the_calls_under_way():
    stop = threading.Event()
    with (
        ScriptedPeerCluster(regions=halves(), reply=lambda server, request: silence(request)) as peer_cluster,
        ThreadPoolExecutor() as pool,
    ):
        direct = shipper(peer_cluster, Time(stop=True), stop=stop)
        shipping = pool.submit(direct.ship, shipment_of([rows(b"a", b"z")]), 2000)
        while sum(len(host.requests) for host in peer_cluster.hosts) < 2:
            threading.Event().wait(0.01)
        assert direct.calls == {peer_cluster.name(0), peer_cluster.name(1)}
        stop.set()
        direct.interrupt()
        with pytest.raises(Stopped):
            shipping.result(30)
        assert direct.calls == frozenset()
        direct.close()


def test_what_follows_a_call_whose_end_is_not_known_waits_until_that_was_acknowledged(monkeypatch):
    """Which actions go together may be another choice in the next round, and a newer one of the row must not be among them."""
    time, silent, offered = Time(), [True], list[list[int]]()
    calls_of_round = module.calls_of_round

    def calls(actions: Any, left: Any, *others: Any) -> Any:
        offered.append(left.tolist())
        return calls_of_round(actions, left, *others)

    def reply(server: int, request: Request) -> bytes | None:
        return silence(request) if silent and silent.pop() else None

    monkeypatch.setattr(module, "calls_of_round", calls)
    with ScriptedPeerCluster(regions=halves(), reply=reply) as peer_cluster:
        direct = shipper(peer_cluster, time, call_timeout_seconds=0.3)
        direct._most = Most(2, 1 << 20)
        direct.ship(shipment_of([rows(b"a", value=b"%d" % number) for number in range(5)]), 2000)
        direct.close()
        assert [list(cells.values()) for cells in peer_cluster.latest().values()] == [[b"4"]]
    assert offered == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [4]]


def test_only_the_call_of_a_silent_server_is_ended():
    time, silent = Time(), [True]

    def reply(server: int, request: Request) -> bytes | None:
        return silence(request) if server == 1 and silent.pop() else None

    with ScriptedPeerCluster(regions=halves(), reply=reply) as peer_cluster, ThreadPoolExecutor() as pool:
        direct = shipper(peer_cluster, time)
        shipping = pool.submit(direct.ship, shipment_of([rows(b"a", b"z")]), 2000)
        while silent or len(direct._calls._under_way) > 1:  # until the other server has answered
            threading.Event().wait(0.01)
        silent.append(False)
        direct.interrupt("it answers nothing else", peer_cluster.name(0))
        assert not shipping.done()
        direct.interrupt("it answers nothing else", peer_cluster.name(1))
        shipping.result(30)
        direct.close()
        assert {row: len(cells) for (_, row), cells in peer_cluster.cells.items()} == {b"a": 1, b"z": 1}
    assert time.sleeps == [1.0, SETTLE_SECONDS]


def test_why_a_call_is_ended_is_known_before_it_ends(monkeypatch):
    under_way, known = threading.Event(), []

    def reply(server: int, request: Request) -> bytes | None:
        under_way.set()
        return silence(request)

    def interrupt(connection: Connection) -> None:
        known.append(direct._tries.why)
        ended(connection)

    ended = Connection.interrupt
    monkeypatch.setattr(Connection, "interrupt", interrupt)
    stop = threading.Event()
    with ScriptedPeerCluster(servers=1, regions=halves(0, 0), reply=reply) as peer_cluster, ThreadPoolExecutor() as pool:
        direct = shipper(peer_cluster, Time(stop=True), stop=stop)
        shipping = pool.submit(direct.ship, shipment_of([rows(b"a")]), 2000)
        assert under_way.wait(30)
        direct.interrupt("it answers nothing else")
        with pytest.raises(Stopped, match="the last error: it answers nothing else"):
            shipping.result(30)
        direct.close()
    assert known == ["it answers nothing else"]


def test_nothing_is_sent_once_told_to_stop():
    stop = threading.Event()
    stop.set()
    with ScriptedPeerCluster(regions=halves()) as peer_cluster, pytest.raises(Stopped):
        ship(peer_cluster, Time(), rows(b"a"), stop=stop)
    assert peer_cluster.multis == []


def test_a_look_up_that_hbase_meta_does_not_answer_is_made_once_a_try():
    time = Time()
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:

        def regions_of(table: str) -> Any:
            peer_cluster.lookups += 1
            raise RegionUnavailable("a row of hbase:meta cannot be read")

        peer_cluster.regions_of = regions_of  # type: ignore[method-assign]
        with pytest.raises(PeerClusterUnreachable, match="a row of hbase:meta cannot be read") as error:
            ship(peer_cluster, time, rows(b"a"), deadline=1010, patience_seconds=1e6)
    assert peer_cluster.lookups == error.value.tries == len(time.sleeps)


@pytest.mark.parametrize("ends", ["the deadline", "the patience", "a stop"])
def test_a_look_up_that_goes_on_and_on_ends_with_the_sender(monkeypatch, ends):
    monkeypatch.setattr(module, "LAST_CONNECT_SECONDS", 0.2)
    stop, asked = threading.Event(), threading.Event()

    class Tables:
        def regions(self, table: str, seconds: Callable[[], float]) -> Any:
            while not stop.wait(0.01):
                seconds()
                asked.set()
            seconds()
            raise AssertionError("the sender is to stop")

        def close(self) -> None: ...

    settings = PeerSettings(patience_seconds=0.3 if ends == "the patience" else 600)
    direct = DirectShipper(Locations(Tables), SendTerms("peer_cluster", stop, Login(user="u"), settings))  # type: ignore[arg-type]
    with ThreadPoolExecutor() as pool:
        deadline = monotonic() + (0.3 if ends == "the deadline" else 600)
        shipping = pool.submit(direct.ship, shipment_of([rows(b"a")]), deadline)
        assert asked.wait(30)
        if ends == "a stop":
            stop.set()
        with pytest.raises(Stopped if ends == "a stop" else PeerClusterUnreachable):
            shipping.result(30)


@pytest.mark.parametrize("look_up", [1, 2])
def test_more_regions_than_can_be_kept_are_a_reason_to_ship_in_another_way(look_up):
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:
        known = peer_cluster.regions_of

        def regions_of(table: str) -> Any:
            found = known(table)
            if peer_cluster.lookups >= look_up:
                raise TooManyRegions(f"table {table}", 500_001, 1 << 20)
            return found

        peer_cluster.regions_of = regions_of  # type: ignore[method-assign]
        peer_cluster.regions[0].server = 1  # which hbase:meta has not told
        with pytest.raises(DirectRefused, match="tells of 500001 regions of table t"):
            ship(peer_cluster, Time(), rows(b"a"))


def test_connections_to_servers_that_no_map_names_are_closed():
    with ScriptedPeerCluster(regions=halves()) as peer_cluster:

        def move() -> None:
            peer_cluster.regions[0].server = 1
            peer_cluster.tell()

        direct = shipper(peer_cluster, Time())
        direct.ship(shipment_of([rows(b"a", b"z")]), 2000)
        assert direct._calls._connections.keys() == {peer_cluster.name(0), peer_cluster.name(1)}
        peer_cluster.before = once(move)
        direct.ship(shipment_of([rows(b"a", b"z")]), 2000)
        assert direct._calls._connections.keys() == {peer_cluster.name(1)}
        direct.close()


def test_a_sender_whose_connections_are_closed_under_its_hands_ends_in_order():
    silent = threading.Event()
    stop = threading.Event()

    def reply(server: int, request: Request) -> bytes | None:
        silent.set()
        return silence(request)

    with ScriptedPeerCluster(servers=1, regions=halves(0, 0), reply=reply) as peer_cluster, ThreadPoolExecutor() as pool:
        direct = shipper(peer_cluster, Time(stop=True), stop=stop)
        shipping = pool.submit(direct.ship, shipment_of([rows(b"a")]), 2000)
        assert silent.wait(30)
        stop.set()
        direct.close()
        with pytest.raises(Stopped):
            shipping.result(30)


def test_why_a_call_was_ended_is_not_said_of_others():
    with ScriptedPeerCluster(servers=1, regions=halves(0, 0)) as peer_cluster:
        direct = shipper(peer_cluster, Time())
        direct.interrupt("it answers nothing else", peer_cluster.name(0))
        peer_cluster.kill(0)
        with pytest.raises(PeerClusterUnreachable) as error:
            direct.ship(shipment_of([rows(b"a")]), 1000.5)
        direct.close()
    assert error.value.tries == 1
    assert "it answers nothing else" not in error.value.last_error


def share_of(senders: int) -> Share:
    """The share of one sender of so many."""
    share = Share()
    for _ in range(senders - 1):
        share.join()
    return share


@pytest.mark.long
@pytest.mark.parametrize("senders", [1, 4], ids=["one call at a time", "side by side"])
@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 12))])
def test_edits_take_effect_in_order_through_splits_merges_moves_and_failures(seed, senders, monkeypatch):
    """Rows are written again and again under equal keys, so each edit that is out of order would show."""
    chance = random.Random(seed)
    monkeypatch.setattr(module, "MAX_ACTIONS", chance.choice([3, 10, 5000]))
    keys = [b"%02d" % i for i in range(30)]
    edits = [
        entry(*(Cell(chance.choice(keys), b"f", b"q%d" % chance.randrange(3), 1, chance.choice([4, 8]), b"%d.%d" % (i, j))
                for j in range(chance.randint(1, 4))), ids=chance.choice([(), (OTHERS[1],)]))
        for i in range(300)
    ]  # fmt: skip

    def change(peer_cluster: ScriptedPeerCluster) -> None:
        """Split, merge, move, close or open a region; hbase:meta may be told later."""
        region = chance.choice(peer_cluster.regions)
        what = chance.randrange(5)
        if what == 0 and region.start < (border := b"%02d" % chance.randrange(1, 30)) and (not region.end or border < region.end):
            peer_cluster.regions.append(OpenRegion(b"t", border, region.end, chance.randrange(3)))
            region.end = border
        elif what == 1 and (after := next((r for r in peer_cluster.regions if r.start == region.end and r.start), None)):
            region.end = after.end
            peer_cluster.regions.remove(after)
        elif what == 2:
            region.server = None
        else:
            region.server = chance.randrange(3)

    time = Time()
    with ScriptedPeerCluster(servers=3, regions=[OpenRegion(b"t", b"", b"", 0)]) as peer_cluster:

        def before(server: int, _: Any) -> None:
            with peer_cluster._lock:
                if chance.random() < 0.4:
                    change(peer_cluster)

        def wait(seconds: float) -> bool:
            with peer_cluster._lock:
                for region in peer_cluster.regions:
                    region.server = chance.randrange(3) if region.server is None else region.server
                peer_cluster.tell()
            return Time.wait(time, seconds)

        peer_cluster.before = before
        peer_cluster.judge = lambda region, row: (
            chance.choice([BUSY, f"{NOT_SERVING} closing"]) if chance.random() < 0.03 else None
        )
        peer_cluster.reply = lambda server, request: b"\xff" * 8 if chance.random() < 0.05 else None
        direct = shipper(peer_cluster, time, share=share_of(senders), patience_seconds=1e6, call_timeout_seconds=20)
        direct._tries._wait = wait
        for first in range(0, 300, 60):
            direct.ship(shipment_of(edits[first : first + 30], edits[first + 30 : first + 60]), 1e9)
        direct.close()
        assert peer_cluster.latest() == latest_of(edits)
    assert direct.failed_batches > 5


@pytest.mark.long
@pytest.mark.parametrize("sent", ["alone", "with a newer edit of the row in the same shipment"])
def test_a_call_that_has_timed_out_has_its_effect_before_anything_newer(sent, monkeypatch):
    """HBase's server goes on with what it has begun, e.g. when there is memory for it, and answers nobody."""
    monkeypatch.setattr(module, "MAX_ACTIONS", 1)
    again, calls = threading.Event(), list[int]()

    def before(server: int, _: Any) -> None:
        calls.append(server)
        if len(calls) == 1:
            assert again.wait(30)
            threading.Event().wait(0.3)
        else:
            again.set()

    with ScriptedPeerCluster(servers=1, regions=halves(0, 0), before=before) as peer_cluster:
        settings = PeerSettings(call_timeout_seconds=1.0, sleep_seconds=0.1)
        direct = DirectShipper(Locations(peer_cluster.as_tables), SendTerms("peer_cluster", threading.Event(), USER, settings))
        older, newer = rows(b"a", value=b"older"), rows(b"a", value=b"newer")
        for shipment in [[older], [newer]] if sent == "alone" else [[older, newer]]:
            direct.ship(shipment_of(shipment), monotonic() + 20)
        direct.close()
        while len(peer_cluster.cells[b"t", b"a"]) < 3:
            threading.Event().wait(0.01)
        assert [cell.value for cell in peer_cluster.cells[b"t", b"a"]] == [b"older", b"older", b"newer"]
    assert direct.failed_batches == 1


def test_what_another_server_has_meanwhile_is_not_waited_for():
    """HBase closes a region only when nothing is being written to it, and lets no dead server write to its files."""
    time = Time()

    def reply(server: int, request: Request) -> bytes | None:
        if server == 1:
            return None
        peer_cluster.regions[0].server = 1
        peer_cluster.tell()
        return hang_up(request)

    with ScriptedPeerCluster(regions=halves(0, 1), reply=reply) as peer_cluster:
        ship(peer_cluster, time, rows(b"a"))
    assert time.sleeps == []

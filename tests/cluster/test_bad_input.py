"""Input that must not or cannot be shipped gives an error with place and advice. Nothing is lost, and other queues go on."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from embedded.client import GLOBAL
from embedded.wire import put
from tests.cluster.dead_queues import DeadQueue, Recording, record
from tests.cluster.test_shipping import archive, eventually
from tests.cluster.walferry_runs import Shipping, is_untouched, plan, positions, roll, ship, ship_one
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.zk.client import connected
from walferry.engine import run
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.layout import ZNodes
from walferry.hbase.values import encode_position
from walferry.hbase.wal.scan import scan_entries
from walferry.replication.peers.settings import PeerSettings
from walferry.shipping import closed_wal

ROWS = 60
BROKEN = 40  # the number of the spoilt put


@pytest.fixture
def show(record_property):
    """`show("name", text)`: the error text goes into the test's output (pytest -rP) and report."""

    def show(name: str, text: str | None) -> str:
        assert text
        print(f"{name}: {text}")
        record_property(name, text)
        return text

    return show


@pytest.fixture
def recording(sides, both) -> Recording:
    return record(sides.source, both({"f": GLOBAL}), ROWS)


@pytest.fixture
def queue(sides, recording, peer) -> DeadQueue:
    """An empty queue of a dead server. The recording was made before the peer, so no other queue contains it."""
    return DeadQueue(sides.at, sides.source, peer)


@pytest.fixture
def another_queue(sides, recording, peer) -> Callable[[], DeadQueue]:
    return lambda: DeadQueue(sides.at, sides.source, peer)


@pytest.fixture(scope="module")
def sound_recording(standalone_pair, java_client) -> Recording:
    source, peer_cluster = (java_client(cluster.address) for cluster in standalone_pair)
    table = f"t{secrets.token_hex(4)}"
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL})
    return record(source, table, 5)


@pytest.fixture
def ship_beside(sides, peer, sound_recording) -> Callable[..., list[GroupSummary]]:
    """Ship spoilt queues together with a sound one, which must end as done. Returns the summaries of the spoilt ones."""

    def ship_all(*queues: DeadQueue) -> list[GroupSummary]:
        sound = DeadQueue(sides.at, sides.source, peer)
        sound.add(sound_recording.content)
        *spoilt, other = ship(sides.at, peer, roll_first=False, groups=[q.group for q in (*queues, sound)])
        assert (other.status, other.shippedCells) == (Status.DONE, 5), other.error
        assert sound.positions() == {}
        assert sides.source.compare(sound_recording.table, sides.peer_cluster).same
        assert {summary.status for summary in spoilt} == {Status.FAILED}
        return spoilt

    return ship_all


def rows_at(client, table: str) -> list[str]:
    return sorted({cell.row.decode("latin-1") for cell in client.scan_all(table)})


def rows_up_to(count: int) -> list[str]:
    return [f"row{i:04}" for i in range(count)]


def telling_bytes(recording: Recording) -> dict[str, int]:
    """Return the offset of a byte of each length in the put number BROKEN, and of bytes where HBase's reader would stop."""
    index = scan_entries(np.frombuffer(recording.content, np.uint8), begin(recording), recording.puts[BROKEN].end).index
    cell = int(index.cells_start[0])
    return {
        "length of the key": begin(recording),
        "length of the key's first field": int(index.key_start[0]) + 1,
        "length of the cell": cell + 3,
        "length of the cell's key": cell + 6,
        "length of the value": cell + 8,
        "length of the row": cell + 12,
        "length of the family": cell + 14 + len("row0000"),
        "sign of the timestamp": cell + 14 + len("row0000") + 1 + len("fq"),
        "type": cell + 14 + len("row0000") + 1 + len("fq") + 8,
    }


def begin(recording: Recording) -> int:
    """Return where the put number BROKEN begins."""
    return recording.entries[recording.entries.index(recording.puts[BROKEN]) - 1].end


def flipped(content: bytes, offset: int) -> bytes:
    return content[:offset] + bytes([content[offset] ^ 0xFF]) + content[offset + 1 :]


def test_a_flipped_byte_stops_the_position_at_its_entry(sides, peer, recording, another_queue, ship_beside, show):
    flips = telling_bytes(recording)
    queues = [another_queue() for _ in flips]
    wals = [queue.add(flipped(recording.content, at)) for queue, at in zip(queues, flips.values(), strict=True)]
    summaries = ship_beside(*queues)
    for what, queue, wal, summary in zip(flips, queues, wals, summaries, strict=True):
        text = show(f"flipped {what}", summary.error)
        assert f"file://{wal} at byte " in text
        assert f"in the entry that begins at byte {begin(recording)}" in text
        assert queue.positions() == {wal.name: begin(recording)}
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(BROKEN)

    wals[0].write_bytes(recording.content)
    mended = ship_one(sides.at, peer, roll_first=False, groups=[queues[0].group], run_id="mended")
    assert (mended.status, mended.shippedCells) == (Status.DONE, ROWS - BROKEN), mended.error
    assert sides.source.compare(recording.table, sides.peer_cluster).same
    assert queues[0].positions() == {}


def test_a_dead_servers_wal_that_ends_in_mid_entry_is_shipped_to_its_last_whole_entry(sides, peer, recording, queue):
    """A file ends like this if its server died while it wrote an edit, which was therefore never acknowledged to a client."""
    end = recording.puts[BROKEN].end - 3
    queue.add(recording.content[:end])
    summary = ship_one(sides.at, peer, roll_first=False, groups=[queue.group])
    assert (summary.status, summary.uncleanlyClosedLogs) == (Status.DONE, 1), summary.error
    assert summary.ignoredUncleanlyClosedLogContentsInBytes == end - begin(recording)
    assert rows_at(sides.peer_cluster, recording.table) == rows_up_to(BROKEN)
    assert queue.positions() == {}


def test_a_dead_servers_wal_without_a_whole_header_has_no_edits(sides, peer, recording, queue):
    for length in (0, 3, 40):
        queue.add(recording.content[:length])
    queue.add(recording.content)
    summary = ship_one(sides.at, peer, roll_first=False, groups=[queue.group])
    assert (summary.status, summary.uncleanlyClosedLogs, summary.completedLogs) == (Status.DONE, 3, 4), summary.error
    assert summary.ignoredUncleanlyClosedLogContentsInBytes == 3 + 40
    assert sides.source.compare(recording.table, sides.peer_cluster).same


def test_a_live_servers_wal_that_ends_in_mid_entry_is_an_error(sides, both, peer, show):
    table = both()
    sides.source.write(table, [put(f"row{i:04}", {"f:q": b"v"}) for i in range(ROWS)], one_by_one=True)
    roll(sides.at, peer)
    (group,) = plan(sides.at, peer).groups
    (name,) = [wal.name for wal in group.wals]
    archive(sides, [name])
    wal = Path(sides.at.wal_root.removeprefix("file://")) / "oldWALs" / name
    content = wal.read_bytes()
    puts = [e for e in sides.source.read_wal(f"file://{wal}") if e.table == table and e.scopes]
    wal.write_bytes(content[: puts[BROKEN].end - 3])
    summary = ship_one(sides.at, peer, roll_first=False)
    assert summary.status is Status.FAILED
    text = show("truncated WAL", summary.error)
    assert f"file://{wal} at byte {puts[BROKEN - 1].end}" in text
    assert positions(sides.at, peer)[name] == puts[BROKEN - 1].end
    assert rows_at(sides.peer_cluster, table) == rows_up_to(BROKEN)

    wal.write_bytes(content)
    assert ship_one(sides.at, peer, run_id="mended").status is Status.DONE
    assert sides.source.compare(table, sides.peer_cluster).same


def test_a_wal_without_a_trailer_that_is_not_archived_is_waited_for_and_then_named(sides, both, peer, show, monkeypatch):
    table = both()
    sides.source.write(table, [put("row", {"f:q": b"v"})])
    roll(sides.at, peer)
    (group,) = plan(sides.at, peer).groups
    wal = Path(group.wals[0].url.removeprefix("file://"))
    content = wal.read_bytes()
    wal.write_bytes(content[:-8])
    for module in (closed_wal, run):
        monkeypatch.setattr(module, "CLOSE_TIMEOUT_SECONDS", 0.5)
    summary = ship_one(sides.at, peer, roll_first=False)
    assert summary.status is Status.FAILED
    assert f"file://{wal} is not closed" in show("WAL not closed", summary.error)
    assert positions(sides.at, peer)[wal.name] == 0
    wal.write_bytes(content)
    assert ship_one(sides.at, peer, run_id="closed").status is Status.DONE
    assert sides.source.compare(table, sides.peer_cluster).same


def test_a_missing_file_is_named_with_where_it_was_looked_for(sides, peer, recording, queue, ship_beside, show):
    first = queue.add(recording.content)
    missing = queue.add(None)
    (summary,) = ship_beside(queue)
    text = show("missing file", summary.error)
    assert missing.name in text
    assert f"file://{missing}" in text
    assert first.name not in queue.positions()
    assert queue.positions() == {missing.name: 0}
    assert sides.source.compare(recording.table, sides.peer_cluster).same


def test_an_unparsable_position_is_named_with_its_znode_and_left_alone(sides, peer, recording, queue, ship_beside, show):
    wal = queue.add(recording.content, b"somewhere")
    (summary,) = ship_beside(queue)
    assert f"{queue.path}/{wal.name}" in show("unparsable position", summary.error)
    assert rows_at(sides.peer_cluster, recording.table) == []
    with connected(sides.at.quorum) as zk:
        assert zk.get(f"{queue.path}/{wal.name}")[0] == b"somewhere"

    queue.set_position(wal, b"")
    assert ship_one(sides.at, peer, roll_first=False, groups=[queue.group], run_id="mended").status is Status.DONE
    assert sides.source.compare(recording.table, sides.peer_cluster).same


def test_a_position_that_is_no_entrys_start_is_refused(sides, recording, another_queue, ship_beside, show):
    places = {
        "beyond the end": len(recording.content) + 1000,
        "in the middle of an entry": recording.puts[BROKEN].end - 5,
        "in the header": 20,
    }
    queues = [another_queue() for _ in places]
    wals = [queue.add(recording.content, encode_position(at)) for queue, at in zip(queues, places.values(), strict=True)]
    summaries = ship_beside(*queues)
    for (where, position), queue, wal, summary in zip(places.items(), queues, wals, summaries, strict=True):
        assert f"file://{wal} at byte {position}" in show(f"position {where}", summary.error)
        assert queue.positions() == {wal.name: position}
    assert rows_at(sides.peer_cluster, recording.table) == []


def test_what_is_no_wal_is_refused(sides, peer, recording, queue, ship_beside, show):
    wal = queue.add(b"#!/bin/sh\n" * 100)
    (summary,) = ship_beside(queue)
    assert f"file://{wal} at byte 0" in show("no WAL", summary.error)
    assert queue.positions() == {wal.name: 0}


def test_a_wal_whose_values_nobody_can_decompress_is_refused_as_such(sides, peer, recording, queue, ship_beside, show):
    lzo = {"has_compression": True, "has_value_compression": True, "value_compression_algorithm": 0}
    header = pb.WALHeader(writer_cls_name="ProtobufLogWriter", **lzo).SerializeToString()
    wal = queue.add(b"PWAL" + bytes([len(header)]) + header + recording.content[85:])
    (summary,) = ship_beside(queue)
    assert "by number 0 of HBase's algorithms, which cannot be read" in show("LZO values", summary.error)
    assert queue.positions() == {wal.name: 0}


def test_an_enabled_peer_is_refused(sides, unique, show):
    peer = unique("peer")
    sides.source.add_peer(peer, sides.peer_cluster.address.cluster_key, configuration={"walferry.managed": "true"})
    try:
        (server,) = sides.source.region_servers()
        before = positions(sides.at, peer)
        (summary,) = ship(sides.at, peer, roll_first=False, groups=[server.replace(",", "%2C")])
        assert summary.status is Status.FAILED
        assert f"peer {peer}: it is ENABLED" in show("ENABLED peer", summary.error)
        assert positions(sides.at, peer).keys() >= before.keys()
    finally:
        sides.source.remove_peer(peer)


def test_a_peer_without_the_mark_is_refused(sides, both, unique, show):
    peer, table = unique("peer"), both()
    sides.source.add_peer(peer, sides.peer_cluster.address.cluster_key, enabled=False)
    try:
        sides.source.write(table, [put("row", {"f:q": b"v"})])
        sides.source.roll_wals()
        before = positions(sides.at, peer)
        (group,) = plan(sides.at, peer).groups
        (summary,) = ship(sides.at, peer, roll_first=False, groups=[group.group])
        assert summary.status is Status.FAILED
        assert "walferry.managed=true" in show("peer without the mark", summary.error)
        assert is_untouched(before, positions(sides.at, peer))
        assert rows_at(sides.peer_cluster, table) == []
    finally:
        sides.source.remove_peer(peer)


def test_a_missing_peer_is_refused_with_those_that_are_there(sides, peer, show):
    (summary,) = ship(sides.at, "nosuch", roll_first=False, groups=["g"])
    assert summary.status is Status.FAILED
    assert "peer nosuch" in show("missing peer", summary.error)


@pytest.mark.parametrize("missing", ["table", "family"])
def test_what_the_peer_cluster_lacks_is_named_and_shipped_once_it_is_there(sides, both, unique, peer, missing, show):
    table, ok = unique("t"), both()
    sides.source.create_table(table, {"f": GLOBAL})
    if missing == "family":
        sides.peer_cluster.create_table(table, {"g": GLOBAL})
    sides.source.write(ok, [put("row", {"f:q": b"v"})])
    roll(sides.at, peer)
    sides.source.write(table, [put(f"row{i:04}", {"f:q": b"v"}) for i in range(ROWS)])
    summary = ship_one(sides.at, peer)
    assert summary.status is Status.FAILED
    text = show(f"missing {missing}", summary.error)
    assert table in text
    assert sides.source.compare(ok, sides.peer_cluster).same  # the put was in an earlier WAL
    left = positions(sides.at, peer)

    if missing == "family":
        sides.peer_cluster.drop_table(table)
    sides.peer_cluster.create_table(table, {"f": GLOBAL})
    summary = ship_one(sides.at, peer, run_id="mended")
    assert summary.status is Status.DONE, summary.error
    assert sides.source.compare(table, sides.peer_cluster).same
    assert not left.keys() & positions(sides.at, peer).keys()


def test_a_peer_that_is_enabled_in_mid_run_is_let_go(sides, both, proxied, proxied_peer, show):
    """The peer's RegionServers may be shipping from then on, so no position is registered any more."""
    table = both()
    sides.source.put_many(table, 4000, ["f:a"], batch=100)
    roll(sides.at, proxied_peer)
    state = ZNodes(sides.at.znode_parent).peer_state(proxied_peer)
    proxied.sink.answers.lock()
    small = PeerSettings(shipment_bytes=64 << 10)
    with connected(sides.at.quorum) as zk, Shipping(sides.at, proxied_peer, roll_first=False, settings=small) as run:
        eventually(lambda: proxied.sink.requests.passed > 0, "a first shipment is on its way")
        before = positions(sides.at, proxied_peer)
        disabled = zk.get(state)[0]
        # In ZooKeeper only: the RegionServers do not watch the znode, so they leave the queue alone.
        zk.set(state, b"PBUF" + pb.ReplicationState(state=pb.ReplicationState.ENABLED).SerializeToString())
        proxied.sink.answers.let_go()
        summary = run.summary()
        zk.set(state, disabled)
    assert summary.status is Status.FAILED
    assert f"peer {proxied_peer}" in show("peer enabled in mid-run", summary.error)
    assert is_untouched(before, positions(sides.at, proxied_peer))

    assert ship_one(sides.at, proxied_peer, run_id="again").status is Status.DONE
    assert sides.source.compare(table, sides.peer_cluster).same

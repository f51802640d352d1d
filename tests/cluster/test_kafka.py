"""Batches of a peer whose edits go to Kafka: each cell of the source is in its topic once, whatever is killed."""

from __future__ import annotations

import gc
import json
import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from embedded.wire import delete_column, put
from tests.cluster.feeds import deadly, kill_again_and_again, unfed, walferry, write
from tests.cluster.replaying import now
from tests.cluster.streams import (
    Streamed,
    avro_events,
    broker,
    committed,
    events,
    make_topics,
    produce,
    set_config,
    streamed,
    unstreamed,
)
from tests.cluster.walferry_runs import plan, positions, roll
from tests.threads_backend import Threads
from walferry.admin.changing import set_values
from walferry.admin.peers import peer_admin
from walferry.base.errors import WalferryError
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.cluster import cluster_id
from walferry.hbase.names import parse_wal_name
from walferry.jobs.workers import LocalProcesses
from walferry.replay.interval import Interval
from walferry.replay.job import ReplayJob
from walferry.replay.run import replay
from walferry.replication.peers.settings import Records
from walferry.replication.sinks.kafka.positions import PARTITIONS, TOPIC, key_of, partition_of, value_of
from walferry.replication.sinks.kafka.sender import KafkaSender
from walferry.replication.sinks.kafka.sink import KafkaSink
from walferry.replication.source.session import open_session
from walferry.shipping.queue_positions import QueuePositions
from walferry.shipping.ship_run import ShipRun, ship_queued

__all__ = ["broker", "streamed", "unfed", "unstreamed", "walferry"]  # fixtures

KILLS = int(os.environ.get("KAFKA_KILLS", "6"))


def test_each_cell_of_the_source_is_in_its_topic_once(streamed: Streamed) -> None:
    chance = random.Random(1)
    for number in range(3):
        write(streamed, chance, 40, number * 40)
        summaries = streamed.batch(run_id=f"run {number}")
        assert [(s.status, s.sink, s.error) for s in summaries] == [(Status.DONE, "kafka", None)] * len(summaries)
        streamed.is_complete()
    assert sum(s.shippedCells for s in summaries) > 0
    assert not plan(streamed.sides.at, streamed.peer).to_ship


def test_what_was_committed_and_not_noted_in_zookeeper_is_not_sent_again(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(2)
    write(streamed, chance, 30, 0)
    roll(streamed.sides.at, streamed.peer)
    before = positions(streamed.sides.at, streamed.peer)
    with monkeypatch.context() as killed:
        killed.setattr(QueuePositions, "commit", lambda *_: None)  # as if it were killed before each
        ship_queued(streamed.run(), Threads(), print)
    assert positions(streamed.sides.at, streamed.peer) == before
    streamed.is_complete()
    write(streamed, chance, 30, 30)
    assert {s.status for s in streamed.batch(run_id="again")} == {Status.DONE}
    assert positions(streamed.sides.at, streamed.peer) != before
    streamed.is_complete()


def keep_shipping(run: ShipRun, seed: int) -> None:
    """Ship again and again, and die by chance at each step that changes anything."""
    gc.freeze()  # what this process has inherited of Kafka's clients cannot be ended here: it has not their threads
    chance = random.Random(seed)

    KafkaSender._begin = deadly(KafkaSender._begin, chance, 0.05)  # of this process
    KafkaSender._is_committed = deadly(KafkaSender._is_committed, chance, 0.05)
    QueuePositions.commit = deadly(QueuePositions.commit, chance, 0.05)
    while True:
        try:
            ship_queued(run, Threads(), lambda line: None)
        except WalferryError:
            time.sleep(0.2)


@pytest.fixture
def small(streamed: Streamed) -> Streamed:
    """A peer whose transactions have few entries, so that positions lie within WALs."""
    with peer_admin(streamed.sides.at) as admin:
        set_values(admin, streamed.peer, {"replication.source.nb.capacity": "3"})
    return streamed


@pytest.mark.timeout(900)
def test_drivers_and_tasks_that_are_killed_again_and_again_bring_each_cell_once(small: Streamed) -> None:
    kill_again_and_again(small, keep_shipping, KILLS, alive=(1.0, 5.0), within=180)


def test_the_rules_of_the_kafka_proxy_say_what_goes_where_as_its_avro(unstreamed: Streamed) -> None:
    one, other = unstreamed.tables
    rules = f"""<rules>
      <rule action="drop" table="default:{one}" columnFamily="f" qualifier="secret*"/>
      <rule action="route" table="default:{one}" topic="{one}-all"/>
      <rule action="route" table="{one}" qualifier="a" topic="{one}-a,{one}-all"/>
    </rules>"""
    made = replace(unstreamed, records=Records.AVRO, rules=rules)
    make_topics(made.broker, [f"{one}-all", f"{one}-a"])
    made.begin()
    try:
        source = made.sides.source
        source.write(one, [put("r", {"f:a": b"v", "f:b": b"w", "f:secret1": b"no"}, timestamp=5)])
        source.write(one, [delete_column("r", "f:a", timestamp=6)])
        source.write(other, [put("r", {"f:a": b"v"})])
        (summary,) = [s for s in made.batch() if s.shippedCells]
        assert (summary.status, summary.shippedCells) == (Status.DONE, 3)
        table = one.encode()

        def event(qualifier: bytes, value: bytes, timestamp: int = 5, delete: bool = False) -> dict[str, Any]:
            return {"key": b"r", "timestamp": timestamp, "delete": delete, "value": value, "qualifier": qualifier, "family": b"f",
                    "table": table}  # fmt: skip

        a, deleted = event(b"a", b"v"), event(b"a", b"", 6, delete=True)
        assert avro_events(made.broker, f"{one}-all") == [a, event(b"b", b"w"), deleted]
        assert avro_events(made.broker, f"{one}-a") == [a, deleted]
        assert not events(made.broker, f"default.{one}")
    finally:
        made.sides.source.remove_peer(made.peer)


def test_a_broker_that_is_away_keeps_the_edits_queued(streamed: Streamed) -> None:
    chance = random.Random(3)
    write(streamed, chance, 20, 0)
    streamed.batch()
    write(streamed, chance, 20, 20)
    roll(streamed.sides.at, streamed.peer)
    before = positions(streamed.sides.at, streamed.peer)
    streamed.broker.kill()
    try:
        run = replace(streamed.run("away"), deadline=8.0)
        found = ship_queued(run, LocalProcesses(2), print)
        assert {s.status for s in found} <= {Status.PEER_DOWN, Status.DEADLINE}
        assert positions(streamed.sides.at, streamed.peer) == before
    finally:
        streamed.broker.start()
    assert {s.status for s in streamed.batch(rolls=False, run_id="back")} == {Status.DONE}
    streamed.is_complete()


def test_a_missing_topic_stops_the_groups_with_its_edits_until_it_is_made(unstreamed: Streamed) -> None:
    one, _ = unstreamed.tables
    made = replace(unstreamed, rules=f'<rules><rule action="route" topic="{one}-later"/></rules>')
    made.begin()
    try:
        made.sides.source.write(one, [put("r", {"f:a": b"v"})])
        failed = [s for s in made.batch() if s.status is Status.FAILED]
        assert failed
        assert f"topic {one}-later of Kafka at {made.broker.servers} does not take records" in str(failed[0].error)
        make_topics(made.broker, [f"{one}-later"])
        assert {s.status for s in made.batch(run_id="again")} == {Status.DONE}
        assert len(committed(made.broker, f"{one}-later")) == 1
    finally:
        made.sides.source.remove_peer(made.peer)


def test_a_cell_that_is_too_large_for_its_topic_names_the_topic_and_loses_nothing(streamed: Streamed) -> None:
    one, _ = streamed.tables
    large = put("r", {"f:a": random.Random(1).randbytes(3_000_000)})
    streamed.sides.source.write(one, [put("a", {"f:a": b"before"}), large])
    for number in range(2):
        failed = [s for s in streamed.batch(run_id=f"run {number}") if s.status is Status.FAILED]
        assert f"topic default.{one} of Kafka at {streamed.broker.servers} does not take records" in str(failed[0].error)
        assert "MSG_SIZE_TOO_LARGE" in str(failed[0].error)
    set_config(streamed.broker, f"default.{one}", {"max.message.bytes": "10000000"})
    assert {s.status for s in streamed.batch(run_id="mended")} == {Status.DONE}
    streamed.is_complete()


def test_an_earlier_run_that_goes_on_after_another_has_begun_writes_nothing(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease in ZooKeeper has ended, and it does not know: as after a long stop of its machine."""
    write(streamed, random.Random(4), 20, 0)
    roll(streamed.sides.at, streamed.peer)
    begin, opening, sinks, overtaken = KafkaSender._begin, KafkaSink._open, list[KafkaSink](), list[KafkaSender]()

    def open_(self: KafkaSink) -> None:
        opening(self)
        sinks.append(self)

    def begin_late(self: KafkaSender, *arguments: Any) -> None:
        begin(self, *arguments)
        if not overtaken:
            overtaken.append(self)
            (sink,) = [each for each in sinks if each._producer is self.producer]
            Producer({**sink._settings, "transactional.id": sink._name}).init_transactions(30)

    with monkeypatch.context() as late:
        late.setattr(KafkaSink, "_open", open_)
        late.setattr(KafkaSender, "_begin", begin_late)
        found = ship_queued(streamed.run(), Threads(), print)
    assert any("another one ships its WAL group" in str(s.error) for s in found)
    assert {s.status for s in streamed.batch(rolls=False, run_id="again")} == {Status.DONE}
    streamed.is_complete()


def test_a_replay_writes_an_interval_once_more(streamed: Streamed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("walferry.replay.files.SLACK_MS", 5)  # the next WAL begins just after the interval
    begin = now()
    write(streamed, random.Random(6), 20, 0)
    interval = Interval(begin, now())
    streamed.batch()
    before = {table: len(streamed.topic(table)) for table in streamed.tables}
    assert all(before.values())
    job = ReplayJob(
        source=streamed.sides.at, peer_id=streamed.peer, interval=interval, run_id="again", deadline=time.time() + 120
    )
    summaries = replay(job, Threads(), dry_run=False, keep_seconds=600)
    assert {(s.status, s.sink) for s in summaries} == {(Status.DONE, "kafka")}
    for table, count in before.items():
        found = streamed.topic(table)
        assert (len(found), len({event.place for event in found})) == (2 * count, count)


def test_a_position_is_read_once_other_groups_transactions_have_ended(streamed: Streamed) -> None:
    chance = random.Random(8)
    write(streamed, chance, 20, 0)
    streamed.batch()
    other = Producer({"bootstrap.servers": streamed.broker.servers, "transactional.id": "another group's"})
    other.init_transactions(30)
    other.begin_transaction()
    for partition in range(PARTITIONS):
        other.produce(TOPIC, key=b"another group's", value=b"{}", partition=partition)
    other.flush(30)
    write(streamed, chance, 20, 20)
    roll(streamed.sides.at, streamed.peer)
    found = list[GroupSummary]()
    waits = threading.Thread(target=lambda: found.extend(ship_queued(streamed.run("waits"), Threads(), print)))
    waits.start()
    time.sleep(6)
    assert waits.is_alive()
    other.commit_transaction(30)
    waits.join(60)
    assert {s.status for s in found} == {Status.DONE}
    streamed.is_complete()


def test_a_position_that_cannot_be_right_is_refused_until_it_is_taken_away(streamed: Streamed) -> None:
    write(streamed, random.Random(9), 20, 0)
    streamed.batch()
    with open_session(streamed.sides.at) as session:
        feed = f"{streamed.peer} of {cluster_id(session.zk, session.nodes)}"
    group = parse_wal_name(streamed.topic(streamed.tables[0])[0].source["wal"]).group
    key = key_of(feed, group)
    wrong_ones = ((f"{group}.9999999999999", "older WALs are queued"), ("other%2C1%2C1.5", "it is of WAL group other"))
    for number, (wrong, why) in enumerate(wrong_ones, 1):
        produce(streamed.broker, TOPIC, key, value_of((wrong, 5)), partition_of(key))
        write(streamed, random.Random(10), 5, 100 * number)
        failed = [s for s in streamed.batch(run_id=wrong) if s.status is Status.FAILED]
        assert f"topic {TOPIC} of Kafka at {streamed.broker.servers} says that WAL group {group} is there" in str(failed[0].error)
        assert why in str(failed[0].error)
    produce(streamed.broker, TOPIC, key, None, partition_of(key))
    assert {s.status for s in streamed.batch(run_id="mended")} == {Status.DONE}
    streamed.is_complete()


def test_the_command_creates_ships_and_shows_a_peer_of_kafka(
    unstreamed: Streamed, walferry: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    peer, (table, _), servers = unstreamed.peer, unstreamed.tables, unstreamed.broker.servers
    rules = tmp_path / "rules.xml"
    rules.write_text(f'<rules><rule action="route" table="{table}" topic="{table}-events"/></rules>')
    create_it = ("peers", "create", peer, "--kafka", servers, "--table-cfs", table, "--rules", str(rules))
    try:
        status, _, err = walferry(*create_it)
        assert status != 0
        assert f"Kafka at {servers} has no topic {table}-events" in err
        make_topics(unstreamed.broker, [f"{table}-events"])
        status, out, err = walferry(*create_it)
        assert status == 0, err
        assert f"peer {peer} to Kafka at {servers} is managed by Walferry" in out
        assert walferry(*create_it)[0] == 0
        for refused, why in (
            (("peers", "create", peer, "--kafka", servers, "--table-cfs", table), "exists already"),
            (("peers", "create", "x", "--kafka", "nowhere", "--table-cfs", table), "does not name brokers of Kafka"),
            (("peers", "create", "x", "--kafka", "127.0.0.1:1", "--table-cfs", table), "Kafka at 127.0.0.1:1 does not answer"),
            (("peers", "create", "x", "--lake", "x", "--records", "avro"), "--records and --rules are for --kafka"),
            (("peers", "set", peer, "sink=hfiles"), f"goes to Kafka at {servers}, so sink would do nothing"),
            (("peers", "set", peer, "kafka.rules=<rules/>"), "no rule names a topic"),
            (("peers", "hand-back", peer, "--to", "y"), "to which HBase cannot ship"),
            (("verify", peer), "edits go to Kafka"),
        ):
            status, _, err = walferry(*refused)
            assert status != 0
            assert why in err
        unstreamed.sides.source.write(table, [put("r", {"f:a": b"v"})])
        assert walferry("ship", peer)[0] == 0
        assert [event["value"] for event in avro_events(unstreamed.broker, f"{table}-events")] == [b"v"]
        for shown in (("peers", "list"), ("peers", "show", peer)):
            assert f"Kafka at {servers}" in walferry(*shown)[1]
        checks = [line for line in walferry("check")[1].splitlines() if f"peer {peer}" in line]
        assert [line.split()[0] for line in checks] == ["well"] * len(checks)
        assert any(f"Kafka at {servers} answers, with 1 brokers" in line for line in checks)
        assert walferry("peers", "set", peer, "max_lag=60", "kafka.records=debezium", "replication.source.nb.capacity=7")[0] == 0
        unstreamed.sides.source.write(table, [put("r", {"f:a": b"w"})])
        assert walferry("ship", peer)[0] == 0
        *_, (_, _, newest) = committed(unstreamed.broker, f"{table}-events")
        assert json.loads(newest)["op"] == "u"
        assert walferry("peers", "remove", peer)[0] == 0
    finally:
        with suppress(Exception):
            unstreamed.sides.source.remove_peer(peer)

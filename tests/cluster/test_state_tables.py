"""A table of state has what a scan of HBase shows: after batches, merges, splits, flushes and a first copy, read by DuckDB."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from demo.lake import CATALOG
from embedded.client import GLOBAL
from embedded.wire import (
    Mutation,
    append,
    delete_column,
    delete_family,
    delete_family_version,
    delete_row,
    delete_version,
    increment,
    put,
)
from tests.cluster.conftest import Sides
from tests.cluster.feeds import Fed, lake, unfed, walferry
from tests.threads_backend import Threads
from tests.unit.replication.sinks.iceberg.lake import rows_of
from walferry.initial_snapshot.job import CopyRun
from walferry.jobs.workers import LocalProcesses
from walferry.state_tables.merge_run import MergeRun
from walferry.verification.outcome import DifferenceKind

__all__ = ["unfed", "walferry"]  # fixtures

TTL_SECONDS = 3600
LATER, EARLIER = 60_000, 2 * TTL_SECONDS * 1000  # ms from now: a cell that lives, and one that has expired


def make(sides: Sides, table: str) -> None:
    """Family v keeps two versions, d all of them, and t none that is older than an hour, except for the newest one."""
    sides.source.create_table(table, {"v": GLOBAL, "d": GLOBAL, "t": GLOBAL}, [b"row20", b"row40"], versions=2)
    sides.source.alter_family(table, "d", {"VERSIONS": "10000"})
    sides.source.alter_family(table, "t", {"VERSIONS": "3", "TTL": str(TTL_SECONDS), "MIN_VERSIONS": "1"})


@pytest.fixture
def states(unfed: Fed) -> Iterator[Fed]:
    """A peer of two tables, into a lake."""
    for table in unfed.tables:
        unfed.sides.source.drop_table(table)
        make(unfed.sides, table)
    unfed.begin()
    yield unfed
    unfed.sides.source.remove_peer(unfed.peer)


def edits(chance: random.Random, count: int) -> Iterator[Mutation]:
    """Puts and deletes by which HBase shows the same, whenever it flushes: where old versions are dropped, markers hide all."""
    now = int(time.time() * 1000)
    for number in range(count):
        row, at, value = f"row{chance.randrange(60):02}", 1_000_000 + chance.randrange(40), b"%d" % number
        recent = chance.choice([now - LATER, now - EARLIER]) + chance.randrange(100)
        yield chance.choice(
            [
                put(row, {"d:a": value, "d:b": b"x", "v:a": value}, timestamp=at),
                put(row, {"d:a": value, "v:a": value, "v:b": b""}, timestamp=at),
                put(row, {"t:a": value}, timestamp=recent),
                put(row, {"t:b": value}, timestamp=recent, ttl_ms=chance.choice([1, 30 * 60_000])),
                put(row, {"v:now": value}),
                increment(row, {"v:count": 3}),
                append(row, {"v:text": b"more"}),
                delete_column(row, chance.choice(["d:a", "v:a"]), timestamp=at),
                delete_family(row, chance.choice(["d", "v"]), timestamp=at),
                delete_version(row, "d:a", timestamp=at),
                delete_family_version(row, "d", at),
                delete_row(row) if chance.random() < 0.3 else put(row, {"d:a": value}, timestamp=at),
            ]
        )


def write(fed: Fed, chance: random.Random, count: int) -> None:
    for table in fed.tables:
        fed.sides.source.write(table, list(edits(chance, count)), one_by_one=True)


def merge(fed: Fed, *tables: str, expect: bool = True) -> list[dict[str, Any]]:
    run = MergeRun(source=fed.sides.at, peer_id=fed.peer, run_id="merge", tables=tables)
    assert MergeRun.from_json(run.to_json()) == run
    done = run.run(LocalProcesses(2), print)
    assert done.failed is not expect, done.errors
    found: list[dict[str, Any]] = json.loads(done.result)
    return found


def is_as_hbase_shows(fed: Fed, *tables: str) -> None:
    for table in tables or fed.tables:
        found = rows_of(lake().load_table(("default", table)))
        assert sorted((r["row"], r["family"], r["qualifier"], r["timestamp"], r["value"]) for r in found) == sorted(
            (c.row, c.family, c.qualifier, c.timestamp, c.value) for c in fed.sides.source.scan_all(table)
        )
        assert found


@pytest.mark.capability("a lake's table of state")
def test_a_state_is_what_hbase_shows_after_any_edits_batches_and_merges(states: Fed) -> None:
    chance, source = random.Random(1), states.sides.source
    # HBase compacts the halves of a region. Then it has no markers any more that would hide what is written with old timestamps.
    source.switch_compaction(states.tables[0], False)
    for number in range(5):
        write(states, chance, 150)
        if number == 1:
            (region,) = [each for each in source.regions(states.tables[0]) if each.start_key == b"row20"]
            source.split_region(region.encoded_name, b"row30")
        if number == 2:
            source.flush(states.tables[1])
        if number == 4:  # with all edits in files, it leaves out what a scan does not show, and nothing else
            source.flush(states.tables[1])
            source.major_compact(states.tables[1])
        states.batch()
        if number % 2 == 0:
            time.sleep(0.1)  # cells with a TTL of 1 ms
            merge(states)
            is_as_hbase_shows(states)


def test_a_state_has_a_first_copy_and_what_came_after_it(unfed: Fed) -> None:
    chance, source = random.Random(2), unfed.sides.source
    for table in unfed.tables:
        source.drop_table(table)
        make(unfed.sides, table)
    write(unfed, chance, 150)
    source.flush(unfed.tables[0])
    write(unfed, chance, 150)
    unfed.begin()
    try:
        copied = CopyRun(source=unfed.sides.at, peer_id=unfed.peer, run_id="copy").run(Threads(), print)
        assert not copied.failed
        merge(unfed)
        is_as_hbase_shows(unfed)
        write(unfed, chance, 150)
        unfed.batch()
        merge(unfed)
        is_as_hbase_shows(unfed)
    finally:
        source.remove_peer(unfed.peer)


def test_families_and_rules_that_change_count_at_the_next_merge(states: Fed) -> None:
    chance, source, (one, _) = random.Random(3), states.sides.source, states.tables
    write(states, chance, 150)
    states.batch()
    merge(states)
    source.alter_family(one, "v", {"VERSIONS": "1"})
    source.alter_family(one, "t", {"MIN_VERSIONS": "0"})
    merge(states)
    is_as_hbase_shows(states)


def test_a_table_that_is_gone_keeps_its_state_and_the_others_are_merged(states: Fed, capfd: pytest.CaptureFixture[str]) -> None:
    one, other = states.tables
    write(states, random.Random(4), 50)
    states.batch()
    merge(states)
    before = rows_of(lake().load_table(("default", one)))
    states.sides.source.drop_table(one)
    states.sides.source.write(other, [put("new", {"v:a": b"new"})])
    states.batch()
    capfd.readouterr()
    (outcome,) = merge(states)
    assert f"table {one}: the source has it no more" in capfd.readouterr().out
    assert (outcome["table"], outcome["changes"]) == (other, 1)
    (refused,) = merge(states, one, expect=False)
    assert f"the source has no table {one}" in refused["problem"]
    is_as_hbase_shows(states, other)
    assert rows_of(lake().load_table(("default", one))) == before
    make(states.sides, one)


def test_the_command_merges_and_tells_of_it(
    states: Fed, walferry: Callable[..., tuple[int, str, str]], unique: Callable[[str], str]
) -> None:
    table = states.tables[0]
    status, out, _ = walferry("merge", states.peer)
    assert (status, out) == (0, "The lake has no table of changes yet. A batch makes it: walferry ship\n")
    states.sides.source.write(table, [put("r", {"v:a": b"1"}), put("r", {"v:b": b"1"})])
    states.batch()
    status, out, _ = walferry("merge", states.peer, "--json")
    assert status == 0
    assert json.loads(out)["tables"] == [{"table": table, "changes": 2, "files": 1, "cells": 2, "problem": ""}]
    is_as_hbase_shows(states, table)
    status, out, err = walferry("merge", states.peer, "nowhere")
    assert status == 1
    assert "does not get table nowhere" in out + err
    other = unique("peer")
    try:
        states.sides.source.add_managed_peer(other, states.sides.peer_hbase.address.cluster_key)
        assert "not into a lake" in walferry("merge", other)[2]
    finally:
        with suppress(Exception):
            states.sides.source.remove_peer(other)
    assert CATALOG in walferry("peers", "show", states.peer)[1]


def test_a_comparison_finds_the_rows_in_which_a_state_and_hbase_differ(
    states: Fed, walferry: Callable[..., tuple[int, str, str]]
) -> None:
    chance, source, (one, other) = random.Random(6), states.sides.source, states.tables
    write(states, chance, 150)
    states.batch()
    merge(states, one)
    compare = ("verify", states.peer, "--versions", "10000", "--json")
    status, out, err = walferry(*compare)
    assert status == 1
    assert f"the lake has no default.{other} yet" in out + err
    merge(states)
    status, out, err = walferry(*compare)
    assert (status, err.count("FAILED")) == (0, 0), out + err
    found = json.loads(out)
    assert found["totals"]["GOODROWS"] == sum(len({cell.row for cell in source.scan_all(table)}) for table in states.tables)

    now = int(time.time() * 1000)
    known = source.scan_all(one)[0].row.decode()
    source.write(one, [put(known, {"v:a": b"changed"}, timestamp=now), put("rowx", {"v:a": b"new"}, timestamp=now)])
    status, out, _ = walferry(*compare, one)
    assert status == 3
    assert {(each["kind"], each["row"]) for each in json.loads(out)["samples"]} == {
        (DifferenceKind.DIFFERENT, known), (DifferenceKind.MISSING, "rowx"),
    }  # fmt: skip
    assert walferry(*compare, one, "--to", str(now))[0] == 0
    states.batch()
    merge(states)
    assert walferry(*compare)[0] == 0
    for option in ("--repair", "--deleted", "--from-files"):
        status, out, err = walferry("verify", states.peer, option)
        assert status == 1
        assert "is for peers with a peer cluster" in err

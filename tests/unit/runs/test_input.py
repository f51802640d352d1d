"""Input into the forms of recovery: found, followed to its present place, or refused with a list of what exists."""

from __future__ import annotations

import time

import pytest

from tests.unit.runs.reports.test_verification import PARAMS
from walferry.airflow.tasks.verification import options_of
from walferry.replication.queues.dead_servers import WALFERRY_SERVER, RecoveredQueue
from walferry.runs.input import InputError, pick_queues, pick_server, tables_of

ONE, TWO, LIVE = "rs-1,16020,1", "rs-2,16020,2", "rs-3,16020,3"
CLAIMED = RecoveredQueue("p", LIVE, f"p-{ONE}", (), claimed=True)
ORPHANED = RecoveredQueue("p", TWO, "p", (), claimed=False)
OTHER = RecoveredQueue("q", TWO, f"q-{ONE}", (), claimed=False)
THERE = (CLAIMED, ORPHANED, OTHER)


def pick(peer: str = "", ref: str = "") -> list[RecoveredQueue]:
    return pick_queues(peer, ref, THERE, ["p", "r"], {LIVE})


def test_a_queue_a_peer_or_all_can_be_chosen():
    assert pick(ref=CLAIMED.ref) == [CLAIMED]
    assert pick("p", ORPHANED.ref) == [ORPHANED]
    assert pick("p") == [CLAIMED, ORPHANED]
    assert pick() == list(THERE)


def test_a_peer_that_is_gone_has_the_queues_that_are_left_of_it():
    assert pick("q") == [OTHER]


def test_a_peer_without_recovered_queues_has_none():
    assert pick("r") == []


@pytest.mark.parametrize("now", [f"p-{ONE}-{LIVE}", f"p-{ONE}-{LIVE}-{TWO}"])
def test_a_queue_that_was_claimed_since_is_followed(now):
    moved = RecoveredQueue("p", WALFERRY_SERVER, now, (), claimed=True)
    assert pick_queues("p", CLAIMED.ref, (ORPHANED, moved), ["p"], set()) == [moved]
    assert pick(ref=f"{ONE}/p") == [CLAIMED]


def test_a_queue_of_another_server_with_a_name_that_begins_alike_is_not_taken_for_it():
    alike = RecoveredQueue("p", WALFERRY_SERVER, f"p-{ONE}0", (), claimed=True)
    with pytest.raises(InputError, match=f"there is no queue {ONE}/p"):
        pick_queues("p", f"{ONE}/p", (alike,), ["p"], set())


@pytest.mark.parametrize(
    ("peer", "ref", "reported"),
    [
        ("x", "", "there is no peer 'x'. Peers: p, r; peers with recovered queues: p, q"),
        ("", "rs,1,1/p", f"there is no queue rs,1,1/p. Recovered queues: {ORPHANED.ref}, {OTHER.ref}, {CLAIMED.ref}"),
        ("p", "rs,1,1/p", f"there is no queue rs,1,1/p. Recovered queues of peer p: {ORPHANED.ref}, {CLAIMED.ref}"),
        ("", f"{LIVE}/p", f"{LIVE}/p is the own queue of a live RegionServer"),
        ("p", OTHER.ref, f"queue {OTHER.ref} is one of peer q, not of peer p. Recovered queues of peer p: {ORPHANED.ref}, "),
        ("", "p", "'p' is not a queue: a queue is written as server/queue id. Recovered queues: "),
        ("", f"{TWO}/", "has no peer id before its first '-'"),
        ("", f"{TWO}/p-nobody", "'nobody' is not a server name"),
    ],
)
def test_what_cannot_be_is_told_with_what_is_there_instead(peer, ref, reported):
    with pytest.raises(InputError) as refused:
        pick(peer, ref)
    assert reported in str(refused.value)


def test_an_error_does_not_name_thousands():
    many = [RecoveredQueue("p", LIVE, f"p-rs,1,{i}", (), claimed=True) for i in range(1000)]
    with pytest.raises(InputError) as refused:
        pick_queues("p", "rs,2,2/p", many, ["p"], {LIVE})
    assert str(refused.value).endswith(" and 980 more")


def test_a_server_may_be_dead_or_done_with():
    assert pick_server(f" {ONE} ", [ONE], {LIVE}) == ONE
    assert pick_server(TWO, [ONE], {LIVE}) == TWO


@pytest.mark.parametrize(("name", "reported"), [(LIVE, "is alive"), ("rs-1", "'rs-1' is not a server name")])
def test_a_live_server_or_what_is_none_is_refused(name, reported):
    with pytest.raises(InputError, match=f"{reported}.*Dead servers with queues of managed peers: {ONE}"):
        pick_server(name, [ONE], {LIVE})


@pytest.mark.parametrize("value", ["yesterday", "2026-01-01", "2026-01-01T00:00:00"])
@pytest.mark.parametrize("name", ["start_time", "end_time"])
def test_a_time_without_a_zone_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name} is '{value}'; it must be a time with its zone"):
        options_of({**PARAMS, name: value})


def test_a_time_is_in_the_zone_that_it_names_and_has_to_name_one(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        times = {"start_time": "2026-03-08T03:30:00.001-04:00", "end_time": "2026-03-08T09:00:00Z"}
        options = options_of({**PARAMS, **times})
        with pytest.raises(InputError, match="end_time is '2026-03-08T09:00:00'; it must be a time with its zone"):
            options_of({**PARAMS, "end_time": "2026-03-08T09:00:00"})
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (options.start_time, options.end_time) == (1772955000001, 1772960400000)


def test_tables_are_named_as_hbase_names_them():
    assert tables_of({"tables": ["t", "default:t", " ns:t "]}) == ["t", "t", "ns:t"]
    assert tables_of({"tables": None}) == []

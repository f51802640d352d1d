"""What is typed into the forms of recovery: found, followed to where it is now, or refused with what is there instead."""

from __future__ import annotations

import pytest

from walferry.replication.queues.dead_servers import WALFERRY_SERVER, RecoveredQueue
from walferry.runs.input.recovery_input import InputError, pick_queues, pick_server

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
    ("peer", "ref", "told"),
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
def test_what_cannot_be_is_told_with_what_is_there_instead(peer, ref, told):
    with pytest.raises(InputError) as refused:
        pick(peer, ref)
    assert told in str(refused.value)


def test_an_error_does_not_name_thousands():
    many = [RecoveredQueue("p", LIVE, f"p-rs,1,{i}", (), claimed=True) for i in range(1000)]
    with pytest.raises(InputError) as refused:
        pick_queues("p", "rs,2,2/p", many, ["p"], {LIVE})
    assert str(refused.value).endswith(" and 980 more")


def test_a_server_may_be_dead_or_done_with():
    assert pick_server(f" {ONE} ", [ONE], {LIVE}) == ONE
    assert pick_server(TWO, [ONE], {LIVE}) == TWO


@pytest.mark.parametrize(("name", "told"), [(LIVE, "is alive"), ("rs-1", "'rs-1' is not a server name")])
def test_a_live_server_or_what_is_none_is_refused(name, told):
    with pytest.raises(InputError, match=f"{told}.*Dead servers with queues of managed peers: {ONE}"):
        pick_server(name, [ONE], {LIVE})

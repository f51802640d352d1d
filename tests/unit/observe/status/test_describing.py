"""The description of a source's replication, made from the data that were read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.observe.status.described import BEHIND, HELD, SIZES, group_of_one, name, peer_of
from tests.unit.observe.status.views import DEAD, HOUR, MINUTE, NOW, SERVER, note, notes, peer, queue, view, wal
from walferry.engine.summary import Status
from walferry.hbase.errors import PositionError
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.describing import STUCK_SECONDS, describe, unreachable
from walferry.observe.status.files import FilesSeen, Read
from walferry.observe.status.history import INTERVAL_SECONDS, Sample
from walferry.observe.status.model import BytesLeft, LagKind
from walferry.observe.status.notes import Notes, PeerDown
from walferry.observe.status.view import Holder
from walferry.replication.queues.dead_servers import WALFERRY_SERVER
from walferry.replication.queues.queue import Queue


def test_a_wal_of_the_future_has_no_age_and_neither_has_its_peer() -> None:
    found = peer_of(view(queue(wal(NOW + HOUR), wal(NOW + 2 * HOUR))))
    assert found.replicationLag.certainty is Certainty.UNKNOWN
    assert found.replicationLag.ms is None


def test_an_entry_that_is_not_a_wal_makes_its_peer_s_age_uncertain() -> None:
    assert peer_of(view(queue(problems=("/rs/x/p/junk: not a WAL",)))).replicationLag == Age(
        None, Certainty.UNKNOWN, "/rs/x/p/junk: not a WAL"
    )


def test_all_wals_of_a_dead_server_can_be_shipped() -> None:
    dead = replace(BEHIND, server_is_live=False)
    assert group_of_one(view(dead)).wals_left == 3
    (found,) = peer_of(view(dead)).queues or ()
    assert (found.kind, found.live, found.dead_servers) == (LagKind.NORMAL, False, (SERVER,))


def test_a_claimed_queue_names_the_servers_that_it_came_from() -> None:
    claimed = queue(wal(NOW - HOUR, server=DEAD), queue_id=f"p-{DEAD}-{WALFERRY_SERVER}", server=SERVER)
    ours = queue(wal(NOW - HOUR, server=DEAD), queue_id=f"p-{DEAD}", server=WALFERRY_SERVER, live=False)
    status = describe(view(claimed, ours))
    (found,) = status.peers or ()
    assert [(each.kind, each.dead_servers) for each in found.queues or ()] == [
        (LagKind.RECOVERED, (DEAD, WALFERRY_SERVER)),
        (LagKind.RECOVERED, (DEAD,)),
    ]
    (dead,) = status.dead_servers or ()
    assert (dead.name, dead.claimed) == (DEAD, True)
    assert dead.queues == (f"{SERVER}/p-{DEAD}-{WALFERRY_SERVER}", f"{WALFERRY_SERVER}/p-{DEAD}")


def test_queues_of_peers_that_do_not_exist_are_orphaned() -> None:
    status = describe(view(queue(wal(NOW - HOUR), queue_id="gone"), BEHIND))
    assert [each.peer_id for each in status.orphaned or ()] == ["gone"]


def test_queues_that_cannot_be_read_are_not_called_empty() -> None:
    status = describe(view(queues=None, problems=("the queues kept moving",)))
    (found,) = status.peers or ()
    assert (found.queues, found.sizeOfLogQueue, found.wals_left, found.bytes_left) == (None, None, None, None)
    assert (status.dead_servers, status.orphaned, status.problems) == (None, None, ("the queues kept moving",))
    assert found.replicationLag == Age(None, Certainty.UNKNOWN, "the queues cannot be read")


def test_a_source_that_cannot_be_reached_has_nothing_but_the_reason() -> None:
    status = unreachable("no ZooKeeper server can be reached", NOW / 1000)
    assert (status.unreachable, status.peers, status.live_servers) == ("no ZooKeeper server can be reached", None, None)


def test_a_peer_whose_znodes_cannot_be_read_is_told_with_its_queues() -> None:
    (found,) = describe(replace(view(BEHIND), peers={"p": None})).peers or ()
    assert (found.state, found.managed, found.refusal, found.wals_left) == (None, None, None, 2)


def test_only_a_managed_peer_can_be_refused() -> None:
    assert peer_of(view(peers=(peer(state="ENABLED", managed=False),))).refusal is None
    assert "it is ENABLED" in (peer_of(view(peers=(peer(state="ENABLED"),))).refusal or "")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"walferry.sinc": "direct"}, "walferry.sinc, which Walferry does not know"),
        ({"walferry.sink": "fast"}, "walferry.sink is 'fast'"),
        ({"walferry.paused": "yes"}, "walferry.paused is 'yes'"),
        ({"hbase.replication.drop.on.deleted.table": "perhaps"}, "hbase.replication.drop.on.deleted.table"),
        ({"walferry.paused": "true", "walferry.max_lag": "soon"}, None),  # a lag that makes no sense keeps no batch from shipping
    ],
    ids=["unknown", "no such sink", "neither paused nor not", "HBase's", "shipped all the same"],
)
def test_a_peer_whose_settings_a_batch_refuses_is_refused(config: dict[str, str], why: str | None) -> None:
    refusal = peer_of(view(peers=(replace(peer(), config={"walferry.managed": "true", **config}),))).refusal
    assert refusal is None if why is None else why in (refusal or "")


def test_the_last_run_is_told_with_its_error_and_since_when_it_fails() -> None:
    failing = notes(
        note(Status.RUNNING, MINUTE // 60, "r4"),
        note(Status.HELD, 2 * MINUTE, "r3", error="held by another"),
        note(Status.PEER_DOWN, 5 * MINUTE, "r2", error="the peer cluster is down"),
        note(Status.FAILED, 10 * MINUTE, "r1", error="a broken WAL"),
        note(Status.DONE, 20 * MINUTE, "r0", ageOfLastShippedOp=7, timestampOfLastShippedOp=NOW - HOUR),
    )
    found = peer_of(view(BEHIND, notes=failing, leases=HELD))
    assert (found.error, found.failing_since_ms) == ("the peer cluster is down", NOW - 10 * MINUTE)
    assert found.last_success_ms == NOW - 20 * MINUTE
    last = group_of_one(view(BEHIND, notes=failing, leases=HELD)).last_run
    assert last is not None
    assert (last.run_id, last.status, last.broken_off) == ("r4", "running", False)


def test_what_was_never_shipped_has_no_age() -> None:
    found = peer_of(view(BEHIND))
    assert (found.ageOfLastShippedOp, found.timestampOfLastShippedOp, found.last_success_ms) == (None, None, None)


def test_a_peer_cluster_that_a_run_has_found_down_is_an_error_until_a_group_is_shipped() -> None:
    down = {"p": PeerDown(NOW - MINUTE, "the peer cluster is down")}
    assert peer_of(view(BEHIND, notes=Notes(peer_down=down))).error == "the peer cluster is down"
    later = replace(notes(note(Status.DONE, MINUTE // 2)), peer_down=down)
    assert peer_of(view(BEHIND, notes=later)).error is None


LONG_AGO = queue(wal(NOW - 3 * HOUR, 100, set_ms=NOW - int(STUCK_SECONDS * 1000) - MINUTE), wal(NOW - 2 * HOUR))


@pytest.mark.parametrize(
    "fields",
    [
        {"leases": HELD},
        {"peer_locks": {"p": Holder("batch 7", "")}},
        {"notes": notes(note(Status.DEADLINE, MINUTE, bytesDone=1))},
        {"queues": (queue(wal(NOW - 3 * HOUR, 100, set_ms=NOW - MINUTE), wal(NOW - 2 * HOUR)),)},
        {"queues": (queue(wal(NOW - 3 * HOUR), wal(NOW - MINUTE)),)},
        {"queues": (queue(wal(NOW - 3 * HOUR)),)},
    ],
    ids=["held", "peer lock", "a run shipped", "position set", "just closed", "only the open WAL"],
)
def test_a_peer_that_advances_or_has_nothing_to_ship_is_not_stuck(fields: dict[str, object]) -> None:
    assert "1 of its 1 WAL groups" in (peer_of(view(LONG_AGO)).stuck or "")
    assert peer_of(view(LONG_AGO, **fields)).stuck is None


def test_a_peer_is_not_stuck_if_its_wals_are_known_to_be_shipped() -> None:
    assert peer_of(view(LONG_AGO), FilesSeen(reads={(name(NOW - 3 * HOUR), 100): Read(None)})).stuck is None


def test_runs_that_only_fail_leave_a_peer_stuck() -> None:
    failing = notes(*(note(Status.FAILED, minutes * MINUTE, error="no") for minutes in range(5)))
    assert "for 31 min, and no run has it now" in (peer_of(view(LONG_AGO, notes=failing)).stuck or "")


def test_who_should_ship_a_stuck_peer_is_told() -> None:
    theirs = peer_of(view(LONG_AGO, peers=(peer(state="ENABLED", managed=False),))).stuck or ""
    nobody = peer_of(view(LONG_AGO, peers=(peer(managed=False),))).stuck or ""
    assert theirs.endswith("the peer is ENABLED, so RegionServers ship it")
    assert nobody.endswith("nobody ships it: the peer is DISABLED and not managed")


def test_a_queue_without_wals_has_no_groups() -> None:
    empty: Queue = queue()
    (found,) = peer_of(view(empty)).queues or ()
    assert (found.groups, found.sizeOfLogQueue) == ((), 0)
    assert peer_of(view(empty)).replicationLag.nothing_waits


def test_without_a_look_into_files_a_wal_s_name_bounds_the_age_of_its_edits() -> None:
    group = group_of_one(view(BEHIND))
    assert group.replicationLag == group.closed_lag == Age(3 * HOUR, Certainty.AT_MOST, "no edit is older than its WAL's file")
    assert (group.sizeOfLogQueue, group.wals_left, group.bytes_left) == (3, 2, None)
    assert (group.writer, group.oldest.name, group.oldest.position) == (SERVER, name(NOW - 3 * HOUR), 100)


def test_the_note_of_a_run_bounds_it_better() -> None:
    noted = notes(note(Status.DEADLINE, timestampOfNextToReplicate=NOW - 150 * MINUTE))
    assert group_of_one(view(BEHIND, notes=noted)).closed_lag.ms == 150 * MINUTE
    older = notes(note(Status.DEADLINE, timestampOfNextToReplicate=NOW - 9 * HOUR))
    assert group_of_one(view(BEHIND, notes=older)).closed_lag.ms == 3 * HOUR


def test_an_entry_that_was_read_makes_it_exact() -> None:
    files = FilesSeen(reads={(name(NOW - 3 * HOUR), 100): Read(NOW - 170 * MINUTE)})
    assert group_of_one(view(BEHIND), files).replicationLag == Age(170 * MINUTE, Certainty.EXACT)


def test_wals_that_are_known_to_be_shipped_do_not_count() -> None:
    files = FilesSeen(reads={(name(NOW - 3 * HOUR), 100): Read(None), (name(NOW - 2 * HOUR), 0): Read(None)})
    group = group_of_one(view(BEHIND), files)
    assert group.closed_lag.nothing_waits
    assert group.replicationLag == Age(HOUR, Certainty.AT_MOST, group.replicationLag.why)
    assert "is being written" in group.replicationLag.why


def test_a_server_that_was_seen_to_be_quiet_has_no_older_edits_for_a_peer_in_the_wal_that_was_open_then() -> None:
    seen, quiet = NOW - 4 * MINUTE, {SERVER: NOW - 4 * MINUTE}
    alone, read = queue(wal(NOW - HOUR)), FilesSeen(reads={(name(NOW - HOUR), 0): Read(NOW - 50 * MINUTE)})
    assert group_of_one(view(alone), read).replicationLag == Age(50 * MINUTE, Certainty.EXACT)
    for files in (None, read):
        lag = group_of_one(view(alone, quiet=quiet), files).replicationLag
        assert (lag.ms, lag.certainty) == (4 * MINUTE, Certainty.AT_MOST)
    later = FilesSeen(reads={(name(NOW - HOUR), 0): Read(NOW - MINUTE)})
    assert group_of_one(view(alone, quiet=quiet), later).replicationLag == Age(MINUTE, Certainty.EXACT)

    rolled_since = queue(wal(NOW - HOUR), wal(seen + MINUTE))
    assert group_of_one(view(rolled_since, quiet=quiet), read).closed_lag.ms == 4 * MINUTE
    rolled_before = queue(wal(NOW - HOUR), wal(seen))  # and not shipped, for another reason
    assert group_of_one(view(rolled_before, quiet=quiet), read).closed_lag == Age(50 * MINUTE, Certainty.EXACT)


def test_a_server_is_quiet_for_managed_peers_only() -> None:
    others = view(queue(wal(NOW - HOUR)), peers=(peer(managed=False),), quiet={SERVER: NOW - MINUTE})
    assert group_of_one(others).replicationLag.ms == HOUR


def test_nothing_waits_if_the_open_wal_has_nothing_behind_its_position() -> None:
    alone = queue(wal(NOW - HOUR))
    assert not group_of_one(view(alone)).replicationLag.nothing_waits
    just_read = FilesSeen(reads={(name(NOW - HOUR), 0): Read(None, NOW - 30_000)})
    assert group_of_one(view(alone), just_read).replicationLag.nothing_waits
    old = FilesSeen(reads={(name(NOW - HOUR), 0): Read(None, NOW - 2 * MINUTE)})
    assert group_of_one(view(alone), old).replicationLag.ms == 2 * MINUTE
    assert group_of_one(view(alone), old).replicationLag.certainty is Certainty.AT_MOST
    read = FilesSeen(reads={(name(NOW - HOUR), 0): Read(NOW - MINUTE)})
    assert group_of_one(view(alone), read).replicationLag == Age(MINUTE, Certainty.EXACT)


def test_a_wal_that_was_empty_while_it_was_open_may_have_got_edits_before_it_was_closed() -> None:
    read = FilesSeen(reads={(name(NOW - 3 * HOUR), 100): Read(None, NOW - 30_000)})
    lag = group_of_one(view(BEHIND), read).closed_lag
    assert (lag.ms, lag.certainty) == (30_000, Certainty.AT_MOST)


def test_a_position_that_cannot_be_read_is_told_and_bounds_nothing_but_the_age() -> None:
    broken = queue(wal(NOW - HOUR, PositionError("/rs/x", "its value b'?' is not a position")), wal(NOW - MINUTE))
    group = group_of_one(view(broken), FilesSeen(sizes={name(NOW - HOUR): 500}))
    assert group.oldest.position is None
    assert "b'?' is not a position" in (group.oldest.problem or "")
    assert group.closed_lag == Age(HOUR, Certainty.AT_MOST, "its position cannot be read")
    assert group.bytes_left == BytesLeft(500, unsure=1)


def test_bytes_left_say_how_many_wals_they_leave_out() -> None:
    sizes = {name(NOW - 3 * HOUR): 1000, name(NOW - 2 * HOUR): 50}
    assert group_of_one(view(BEHIND), FilesSeen(sizes)).bytes_left == BytesLeft(950, unsure=0)
    growing = FilesSeen(sizes, growing=frozenset([name(NOW - 2 * HOUR)]))
    assert group_of_one(view(BEHIND), growing).bytes_left == BytesLeft(950, unsure=1)
    assert group_of_one(view(BEHIND), FilesSeen(problem="away")).bytes_left == BytesLeft(0, unsure=2)
    assert peer_of(view(BEHIND), FilesSeen(sizes)).bytes_left == BytesLeft(950, unsure=0)
    assert peer_of(view(BEHIND)).bytes_left is None


def test_a_run_that_shipped_and_went_silent_without_its_lease_was_broken_off() -> None:
    running = notes(note(Status.RUNNING, 2 * MINUTE))
    assert group_of_one(view(BEHIND, notes=running)).last_run.broken_off
    assert not group_of_one(view(BEHIND, notes=running, leases=HELD)).last_run.broken_off
    just_ended = notes(note(Status.RUNNING, 1000))
    assert not group_of_one(view(BEHIND, notes=just_ended)).last_run.broken_off


def test_while_a_run_ships_its_own_figures_tell_the_pace() -> None:
    # What was read ahead of a slow peer cluster is not shipped yet.
    running = notes(note(Status.RUNNING, 1000, logReadInBytes=60_000, bytesDone=400, bytesDoneBefore=200, seconds=10.0))
    pace = peer_of(view(BEHIND, notes=running, leases=HELD), SIZES).pace
    assert (pace.bytes_per_second, pace.seconds_left, pace.why) == (60.0, 100.0, "")
    unknown = peer_of(view(BEHIND, notes=running, leases=HELD)).pace
    assert (unknown.bytes_per_second, unknown.seconds_left, unknown.why) == (60.0, None, "no file was read")
    begun = notes(note(Status.DONE))
    assert peer_of(view(BEHIND, notes=begun, leases=HELD), SIZES).pace.bytes_per_second is None


def samples(*left_and_shipped: tuple[int, int]) -> tuple[Sample, ...]:
    newest = NOW // 1000 // INTERVAL_SECONDS
    first = newest - len(left_and_shipped) + 1
    return tuple(
        Sample(first + number, 0, Certainty.EXACT, left, 0, shipped, 1) for number, (left, shipped) in enumerate(left_and_shipped)
    )


def test_between_two_runs_the_history_tells_the_pace_with_what_was_written_meanwhile() -> None:
    pace = peer_of(view(BEHIND), SIZES, samples((12_000, 99), (9000, 6000), (6000, 6000))).pace
    assert (pace.bytes_per_second, pace.seconds_left) == (20.0, 600.0)
    growing = peer_of(view(BEHIND), SIZES, samples((6000, 99), (9000, 6000))).pace
    assert (growing.bytes_per_second, growing.seconds_left, growing.why) == (20.0, None, "the backlog does not shrink")


def test_nothing_left_is_done_whatever_was_known_of_the_last_minutes() -> None:
    unsure = tuple(replace(each, bytes_left=None) for each in samples((12_000, 99), (9000, 6000), (6000, 6000)))
    pace = peer_of(view(queue(wal(NOW - HOUR, 100))), SIZES, unsure).pace
    assert (pace.bytes_per_second, pace.seconds_left, pace.why) == (20.0, 0.0, "")


def test_without_runs_and_history_the_pace_is_not_known() -> None:
    assert peer_of(view(BEHIND), SIZES).pace.why == "nothing ships it now, and its history does not tell"
    old = tuple(replace(each, interval=each.interval - 100) for each in samples((9000, 1), (1, 8999)))
    assert peer_of(view(BEHIND), SIZES, old).pace.bytes_per_second is None

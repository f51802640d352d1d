"""The measures of a status."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.unit.observe.status.exposed import samples
from tests.unit.observe.status.views import HOUR, MINUTE, NOW, note, notes, peer, queue, view, wal
from walferry.engine.summary import Status
from walferry.hbase.files.space import Space
from walferry.observe.status.describing import describe, unreachable
from walferry.observe.status.files import FilesSeen, Read
from walferry.observe.status.measures import MEASURES, Value, exposition, measured, unknown
from walferry.observe.status.peer_clusters import PeerClusterStatus
from walferry.replication.retention.survey import Amount, Fate, Forecast, OldWalSurvey

BEHIND = queue(wal(NOW - 3 * HOUR, 100), wal(NOW - 2 * HOUR))


def by_name(values: list[Value], peer_id: str | None = "p") -> dict[str, float | None]:
    return {each.measure.name.removeprefix("source."): each.value for each in values if each.peer_id == peer_id}


def test_what_is_known_exactly_has_a_value_under_hbase_s_name() -> None:
    files = FilesSeen(reads={(wal(NOW - 3 * HOUR).name.text, 100): Read(NOW - 170 * MINUTE)})
    noted = notes(note(Status.DONE, HOUR, ageOfLastShippedOp=1234, timestampOfLastShippedOp=NOW - 2 * HOUR))
    status = describe(view(BEHIND, notes=noted), files, {"p": PeerClusterStatus(True, None)})
    found = by_name(measured(status, None))
    assert found["ageOfOldestUnshippedEdit"] == found["replicationLag"] == 170 * MINUTE
    assert (found["ageOfLastShippedOp"], found["lastSuccess"]) == (1234, NOW - HOUR)
    assert (found["sizeOfLogQueue"], found["walsLeft"], found["peerClusterUp"], found["managed"]) == (2, 1, 1, 1)


def test_what_is_not_known_has_no_value_and_is_counted() -> None:
    values = measured(describe(view(BEHIND)), None)
    found = by_name(values)
    assert (found["replicationLag"], found["ageOfOldestUnshippedEdit"]) == (3 * HOUR, None)
    assert (found["peerClusterUp"], found["bytesLeft"]) == (None, None)
    missing = {measure.name.removeprefix("source.") for measure in unknown(values)["p"]}
    assert {"ageOfOldestUnshippedEdit", "peerClusterUp", "bytesLeft"} <= missing
    assert not missing & {"replicationLag", "maxLag", "lastSuccess"}, "a limit that nobody has set is not missed"
    assert unknown(values)[None] == []


def test_queues_that_cannot_be_read_are_not_0() -> None:
    found = by_name(measured(describe(view(queues=None)), None))
    names = ("replicationLag", "sizeOfLogQueue", "walsLeft", "stuck", "failing")
    assert [found[name] for name in names] == [None] * 5


def test_of_a_source_that_cannot_be_looked_at_nothing_else_is_told() -> None:
    values = measured(unreachable("silent", NOW / 1000), OldWalSurvey(NOW / 1000))
    assert by_name(values, None) == {"up": 0, "snapshotAt": NOW}
    assert list(samples(exposition({"s": values}))) == [
        ("walferry_source_up", {"source": "s"}, 0), ("walferry_snapshot_timestamp_seconds", {"source": "s"}, NOW / 1000)
    ]  # fmt: skip


def test_old_wals_are_measured_when_they_were_looked_at() -> None:
    amounts: dict[Fate | None, Amount] = {None: Amount(3, 30), Fate.HELD: Amount(2, 20)}
    old_wals = OldWalSurvey(NOW / 1000, amounts=amounts, forecast=Forecast(0.5, 1.0, Space(1 << 40, 1800)))
    found = by_name(measured(describe(view(BEHIND)), old_wals), None)
    assert (found["oldWals"], found["oldWalsBytes"], found["heldOldWals"], found["heldOldWalsBytes"]) == (3, 30, 2, 20)
    assert (found["heldOldWalsGrowth"], found["diskRemaining"], found["secondsUntilFull"]) == (0.5, 1800, 3600)
    assert "oldWals" not in by_name(measured(describe(view(BEHIND)), None), None)


def test_every_measure_has_a_name_of_its_own() -> None:
    names = [each.prometheus for each in MEASURES.values()]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"walferry_[a-z_]+", name) for name in names)
    assert all(re.fullmatch(r"source\.[a-zA-Z]+", name) for name in MEASURES)


def test_prometheus_gets_base_units_and_each_peer_once() -> None:
    config = {"walferry.managed": "true", "walferry.max_lag": "90"}
    status = describe(view(BEHIND, peers=(replace(peer(), config=config), peer("q"))))
    found = list(samples(exposition({"s": measured(status, None), "t": measured(status, None)})))
    assert ("walferry_replication_lag_seconds", {"source": "s", "peer": "p"}, 10_800) in found
    assert ("walferry_max_lag_seconds", {"source": "t", "peer": "p"}, 90) in found
    assert ("walferry_unknown", {"source": "s", "peer": "q", "measure": "walferry_peer_cluster_up"}, 1) in found
    assert len({(name, *sorted(labels.items())) for name, labels, _ in found}) == len(found)


def test_hostile_names_stay_in_their_labels() -> None:
    hostile = 'a"} 1\nwalferry_stuck{peer="b\\ \ud800'
    values = [Value(MEASURES["source.stuck"], 1, hostile)]
    (found,) = samples(exposition({"s\\": values}))
    assert found == ("walferry_stuck", {"source": "s\\", "peer": hostile.replace("\ud800", "?")}, 1)

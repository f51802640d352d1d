"""Jobs as JSON: a written job is read again, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walferry.base.errors import WalferryError
from walferry.base.jobs import MAX_ARGUMENT_BYTES, arguments_of
from walferry.base.records import NotARecord
from walferry.hbase.files.quarantine import BrokenWals
from walferry.initial_snapshot.job import CopyRun
from walferry.replay.replay_run import ReplayRun
from walferry.replication.peers.settings import SinkKind
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping.ship_run import ShipRun
from walferry.verification.job import Options
from walferry.verification.verify_run import VerifyRun

SOURCE = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase", replication={"sink": "direct"}, key_names=("a",))
SHIP = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60)
JOBS = [
    SHIP,
    ShipRun(
        source=SOURCE, peer_id="2", run_id="r", deadline=0.5, groups=("g1", "g2"), recovery=True,
        broken_wals=BrokenWals.QUARANTINE, sink=SinkKind.AUTO, hfiles_from=1 << 29,
    ),
    ReplayRun(source=SOURCE, peer_id="2", run_id="r", start=1, end=2, deadline=60, tables=("t",), dry_run=True),
    CopyRun(source=SOURCE, peer_id="2", run_id="r", tables=("t", "ns:u"), allow_not_empty=True),
    VerifyRun(source=SOURCE, peer_id="2", run_id="r", options=Options(start_row=b"\x00\xff", end_time=7, repair=True)),
]  # fmt: skip


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.kind)
def test_a_job_is_read_as_it_was_written(job: ShipRun) -> None:
    assert type(job).from_json(job.to_json()) == job


@given(st.text(), st.lists(st.text(), max_size=5))
def test_no_name_changes_a_job(name: str, groups: list[str]) -> None:
    name = name.encode(errors="replace").decode()
    job = replace(SHIP, peer_id=name, run_id=name, groups=tuple(group.encode(errors="replace").decode() for group in groups))
    assert ShipRun.from_json("".join(arguments_of(job)[1:])) == job


def test_a_large_job_is_cut_into_arguments_that_linux_takes() -> None:
    job = replace(SHIP, groups=tuple(f"server%2C16020%2C{number}" for number in range(20_000)))
    kind, *parts = arguments_of(job)
    assert kind == "ship"
    assert len(parts) > 5
    assert max(map(len, parts)) <= MAX_ARGUMENT_BYTES
    assert ShipRun.from_json("".join(parts)) == job


@pytest.mark.parametrize(
    "change",
    [{"peer_id": 7}, {"deadline": "soon"}, {"sink": "odd"}, {"more": 1}, {"groups": "g1"}, {"source": {}}, {"source": 7}],
)
def test_what_is_no_job_is_refused(change: dict[str, object]) -> None:
    with pytest.raises((NotARecord, WalferryError)):
        ShipRun.from_json(json.dumps(json.loads(SHIP.to_json()) | change))


def test_a_job_that_begins_later_has_less_time_but_a_second() -> None:
    assert [SHIP.begun_later(seconds).deadline for seconds in (0, 20, 90)] == [60, 40, 1]
    assert JOBS[3].begun_later(5) == JOBS[3]


@pytest.mark.parametrize("deadline", [0, -1, float("nan")])
def test_a_job_without_any_time_is_refused(deadline: float) -> None:
    with pytest.raises(NotARecord, match="it must be more than 0 seconds"):
        replace(SHIP, deadline=deadline)

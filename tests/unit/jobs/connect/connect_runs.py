"""A run through a Spark Connect server that a fake stands for, for tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.jobs.connect.fake_connect import Fake, row, serving
from walferry.base.protos import spark_connect_pb2 as messages
from walferry.engine.summary import GroupSummary, Status
from walferry.jobs.connect.connect_job import ConnectJob
from walferry.jobs.connect.tasks import ANSWER
from walferry.replication.source.cluster import SourceCluster
from walferry.shipping import ship_run
from walferry.shipping.group_job import GroupJob
from walferry.shipping.ship_run import ShipRun

SOURCE = SourceCluster(quorum="zk1:2181", wal_root="file:///hbase")
RUN = ShipRun(source=SOURCE, peer_id="2", run_id="r", deadline=60)
JOBS = [GroupJob(source=SOURCE, peer_id="2", group=f"g{n}", run_id="r", holder="run r", deadline=time.time()) for n in range(3)]


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving(Fake()) as listening:
        yield listening


@pytest.fixture
def ship(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConnectJob:
    archive = tmp_path / "walferry-0123456789abcdef.zip"
    archive.write_bytes(b"the library")
    monkeypatch.setattr(ship_run, "begin", lambda run: JOBS)
    monkeypatch.setattr(ship_run, "finish", lambda run, summaries: None)
    return ConnectJob(fake.address, archive, tmp_path / "memory", RUN)


def stream(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(out.getvalue().to_pybytes())


def answer(*groups: str, status: Status = Status.DONE) -> messages.ExecutePlanResponse:
    """The answers for these groups, numbered by their last character."""
    return said(*(f"{group[-1]} {GroupSummary(group=group, status=status).to_json()}" for group in groups))


def said(*texts: str | None) -> messages.ExecutePlanResponse:
    return row(stream(pa.RecordBatch.from_arrays([pa.array(texts, pa.string())], [ANSWER])), "r")

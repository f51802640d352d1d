"""What OpenLineage learns of a batch, from a real Airflow with its OpenLineage provider."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from demo.airflow_standalone import Airflow
from embedded.client import GLOBAL, JavaClient
from embedded.hbase import ClusterAddress
from embedded.wire import put
from tests.airflow_standalone import running
from walferry.replication.source.cluster import canonical

BATCH = "replicate_peer"
ROWS = 7
TOLD_SECONDS = 60.0

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    return tmp_path / "lineage.json"


@pytest.fixture
def airflow(standalone_pair: Any, tmp_path: Path, events: Path) -> Iterator[Airflow]:
    address = standalone_pair.source.address
    extra = {"wal_root": address.wal_root, "znode_parent": address.znode_parent}
    environment = {
        "AIRFLOW_CONN_HBASE_SOURCE": json.dumps({"conn_type": "generic", "host": address.quorum, "extra": extra}),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "file", "log_file_path": str(events), "append": True}),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "operators",
    }
    with running(Airflow(tmp_path / "airflow", environment), BATCH) as airflow:
        yield airflow


def test_a_batch_tells_which_tables_it_has_read_and_written_and_how_much(
    airflow: Airflow,
    events: Path,
    standalone_pair: Any,
    java_client: Callable[[ClusterAddress], JavaClient],
    managed_peer: Callable[..., str],
    unique: Callable[[str], str],
) -> None:
    source, peer_cluster = (java_client(each.address) for each in standalone_pair)
    peer, table = managed_peer(standalone_pair.source.address, standalone_pair.peer_cluster.address), unique("t")
    for client in (source, peer_cluster):
        client.create_table(table, {"f": GLOBAL})
    source.write(table, [put(f"r{n}", {"f:q": b"v"}) for n in range(ROWS)])

    airflow.unpause(BATCH)
    run = airflow.trigger(BATCH, {"peer": peer})
    assert airflow.await_run(BATCH, run)["state"] == "success", airflow.task_log(BATCH, run, "peer.report", 0)

    here, there = (f"{of_cluster(each.address)} default:{table}" for each in standalone_pair)
    shipped = completed(events, f"{BATCH}.peer.ship")
    assert here in names(shipped["inputs"])
    assert there in names(shipped["outputs"])
    told = shipped["run"]["facets"]["walferry"]
    assert told["peer"] == peer
    assert told["totals"]["shippedOps"] >= ROWS  # other tests' edits may be in the same WAL


def of_cluster(address: ClusterAddress) -> str:
    hosts, _, parent = canonical(address.cluster_key).rpartition(":")
    return f"hbase://{hosts}{parent}"


def completed(events: Path, job: str) -> dict[str, Any]:
    """The event of the end of a task of which Airflow's provider has told. Tasks that skipped themselves tell nothing.

    A process of its own tells, perhaps after the run has ended.
    """
    give_up = time.monotonic() + TOLD_SECONDS
    while True:
        lines = map(json.loads, events.read_text().splitlines(keepends=True)) if events.exists() else iter(())
        with suppress(ValueError):  # a line that is being written
            for line in lines:
                if line["job"]["name"] == job and line["eventType"] == "COMPLETE" and line["outputs"]:
                    found: dict[str, Any] = line
                    return found
        assert time.monotonic() < give_up, "nothing was told"
        time.sleep(0.5)


def names(datasets: list[dict[str, Any]]) -> list[str]:
    return [f"{each['namespace']} {each['name']}" for each in datasets]

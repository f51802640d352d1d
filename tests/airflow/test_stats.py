"""Measures arrive at real collectors, by Airflow's own backends as its configuration chooses them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.otlp_receiver import otlp_receiver

HOSTILE = "p:1|g#x@0.1,y=z\nwalferry.fake:7|g"
SEND = f"""
from walferry.observe.status.measures import MEASURES, Value
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
from walferry.airflow.stats import send
stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
lag, up, left = (MEASURES["source." + name] for name in ("replicationLag", "up", "bytesLeft"))
values = [Value(up, True), Value(lag, 90_000, "2"), Value(left, None, "2"), Value(lag, 0.12345, {HOSTILE!r})]
print(send("hbase_source", values))
"""


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(30)
        yield listening


def sent(tmp_path: Path, environ: dict[str, str]) -> str:
    """Send the values from a process with an Airflow of its own."""
    ours = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run([sys.executable, "-c", SEND], env={**os.environ, **ours, **environ}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def to_statsd(collector: socket.socket, tmp_path: Path, **more: str) -> set[str]:
    """The packets of StatsD that arrive, without those that Airflow sends of itself."""
    port = str(collector.getsockname()[1])
    environ = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": port, **more}
    count = int(sent(tmp_path, {f"AIRFLOW__METRICS__{name}": value for name, value in environ.items()}))
    packets: set[str] = set()
    while len(packets) < count:
        packets |= {packet for packet in [collector.recv(2000).decode()] if packet.startswith("airflow.walferry.")}
    return packets


def test_statsd_without_tags_gets_source_and_peer_in_the_name(collector: socket.socket, tmp_path: Path) -> None:
    packets = to_statsd(collector, tmp_path)
    (hostile,) = {packet for packet in packets if "fake" in packet and "Lag" in packet}
    assert packets - {hostile} == {
        "airflow.walferry.hbase_source.source.up:1|g",
        "airflow.walferry.hbase_source.source.unknown:0|g",
        "airflow.walferry.hbase_source.source.2.replicationLag:90000|g",
        "airflow.walferry.hbase_source.source.2.unknown:1|g",
        hostile.replace("replicationLag:0.123", "unknown:0"),
    }
    assert hostile.startswith("airflow.walferry.hbase_source.source.p_1_g_x_0_1_y_z_walferry_fake_7_g-")
    assert hostile.endswith(".replicationLag:0.123|g")


@pytest.mark.capability("metrics")
def test_statsd_with_tags_gets_them(collector: socket.socket, tmp_path: Path) -> None:
    packets = to_statsd(collector, tmp_path, STATSD_INFLUXDB_ENABLED="True")
    assert "airflow.walferry.source.replicationLag,source=hbase_source,peer=2:90000|g" in packets
    assert "airflow.walferry.source.unknown,source=hbase_source,peer=2:1|g" in packets
    assert len(packets) == 6
    assert all(packet.count(":") == packet.count("|") == 1 and "\n" not in packet for packet in packets)


def test_opentelemetry_gets_gauges_with_attributes(tmp_path: Path) -> None:
    with otlp_receiver(tmp_path) as receiver:
        count = int(sent(tmp_path, receiver.settings))
        gauges = receiver.await_gauge(("source.replicationlag", "hbase_source", "2"))  # its SDK knows no capitals
    assert gauges["source.replicationlag", "hbase_source", "2"] == 90_000
    assert gauges["source.up", "hbase_source", None] == 1
    assert len(gauges) == count == 6

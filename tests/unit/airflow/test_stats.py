"""Measures arrive at real collectors, by Airflow's own backends as its configuration chooses them."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

HOSTILE = "p:1|g#x@0.1,y=z\nwalferry.fake:7|g"
SEND = f"""
from walferry.status.measures import MEASURES, Value
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics.stats_utils import get_stats_factory
from walferry.airflow.stats import send
stats.initialize(factory=get_stats_factory(), export_legacy_names=True)
lag, up, left = (MEASURES["source." + name] for name in ("replicationLag", "up", "bytesLeft"))
values = [Value(up, True), Value(lag, 90_000, "2"), Value(left, None, "2"), Value(lag, 0.12345, {HOSTILE!r})]
print(send("hbase_source", values))
"""
# What Airflow's extra `statsd` brings, as far as gauges need it.
STATSD = """
import socket
class StatsClient:
    def __init__(self, host, port, prefix, ipv6):
        self._prefix, self._socket = prefix, socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.connect((host, int(port)))
    def gauge(self, stat, value, rate=1, delta=False):
        assert rate == 1 and not delta
        self._socket.send(f"{self._prefix}.{stat}:{value}|g".encode())
    def timer(self, *_):  # Airflow's own
        return Timer()
    incr = timing = timer
class Timer:
    def start(self, *_):
        return self
    stop = start
"""


@pytest.fixture
def collector() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(30)
        yield listening


def sent(tmp_path: Path, environ: dict[str, str]) -> str:
    """Send the values from a process with an Airflow of its own."""
    path = [*sys.path]
    if importlib.util.find_spec("statsd") is None:
        (tmp_path / "statsd.py").write_text(STATSD)
        path.append(str(tmp_path))
    ours = {"AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": ":".join(path), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
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


def test_statsd_with_tags_gets_them(collector: socket.socket, tmp_path: Path) -> None:
    packets = to_statsd(collector, tmp_path, STATSD_INFLUXDB_ENABLED="True")
    assert "airflow.walferry.source.replicationLag,source=hbase_source,peer=2:90000|g" in packets
    assert "airflow.walferry.source.unknown,source=hbase_source,peer=2:1|g" in packets
    assert len(packets) == 6
    assert all(packet.count(":") == packet.count("|") == 1 and "\n" not in packet for packet in packets)


def test_opentelemetry_gets_gauges_with_attributes(tmp_path: Path) -> None:
    bodies: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_port}"
        sent(tmp_path, {"AIRFLOW__METRICS__OTEL_ON": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    finally:
        server.shutdown()
        server.server_close()
    assert gauges(bodies)["airflow.walferry.source.replicationlag", "hbase_source", "2"] == 90_000  # its SDK knows no capitals
    assert gauges(bodies)["airflow.walferry.source.up", "hbase_source", None] == 1
    assert len(gauges(bodies)) == 6


def gauges(bodies: list[bytes]) -> dict[tuple[str, str, str | None], float]:
    """The values that have arrived, by name, source and peer."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    found = {}
    for body in bodies:
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.gauge.data_points:
                    tags = {each.key: each.value.string_value for each in point.attributes}
                    found[metric.name, tags["source"], tags.get("peer")] = point.as_double or point.as_int
    return found

"""A receiver of metrics by OTLP over HTTP for tests, behind OpenTelemetry's own collector if `otelcol` is on PATH.

Requests are parsed by the classes that OpenTelemetry publishes for its protocol (opentelemetry-proto). The collector, if there is
one, takes Airflow's metrics and passes them on to the receiver. Without a collector, Airflow sends to the receiver itself.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse

from embedded.processes import free_port

COLLECTOR = "otelcol"
_CONFIGURATION = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{otlphttp: {{endpoint: "{onward}", compression: none}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{metrics: {{receivers: [otlp], exporters: [otlphttp]}}}}
"""
_NEVER_SECONDS = 120.0

Key = tuple[str, str, str | None]  # a gauge's name, and its attributes source and peer


class OtlpReceiver:
    """Keeps the last value of each of Walferry's gauges. `endpoint` is the address to send to."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.endpoint = f"http://127.0.0.1:{server.server_port}"
        self._gauges: dict[Key, float] = {}
        self._changed = threading.Condition()

    @property
    def settings(self) -> dict[str, str]:
        """Return Airflow's configuration for this receiver, as environment variables."""
        return {"AIRFLOW__METRICS__OTEL_ON": "True", "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint}

    def take(self, body: bytes) -> None:
        """Keep the metrics of a request. Raises DecodeError."""
        with self._changed:
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                    if metric.name.startswith("airflow.walferry."):
                        for point in metric.gauge.data_points:
                            tags = {each.key: each.value.string_value for each in point.attributes}
                            key = metric.name.removeprefix("airflow.walferry."), tags["source"], tags.get("peer")
                            self._gauges[key] = point.as_double or point.as_int
            self._changed.notify_all()

    def await_gauge(self, key: Key) -> Mapping[Key, float]:
        """Wait until this gauge has arrived. Returns all gauges."""
        give_up = time.monotonic() + _NEVER_SECONDS
        with self._changed:
            while key not in self._gauges:
                assert self._changed.wait(give_up - time.monotonic()), (key, self._gauges)
            return dict(self._gauges)


@contextmanager
def otlp_receiver(folder: Path) -> Iterator[OtlpReceiver]:
    """Listen while the block runs. The collector's configuration and log lie in `folder`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(ExportMetricsServiceResponse().SerializeToString())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver = OtlpReceiver(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            if shutil.which(COLLECTOR) is None:
                yield receiver
            else:
                with _collector(folder, receiver):
                    yield receiver
        finally:
            server.shutdown()


@contextmanager
def _collector(folder: Path, receiver: OtlpReceiver) -> Iterator[None]:
    """Run the collector in front of the receiver."""
    port, configuration, log = free_port(), folder / "otelcol.yaml", folder / "otelcol.log"
    configuration.write_text(_CONFIGURATION.format(port=port, onward=receiver.endpoint))
    receiver.endpoint = f"http://127.0.0.1:{port}"
    with log.open("wb") as out, subprocess.Popen([COLLECTOR, f"--config={configuration}"], stdout=out, stderr=out) as process:
        try:
            give_up = time.monotonic() + _NEVER_SECONDS
            while not _listens(receiver.endpoint):
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < give_up, log.read_text()
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def _listens(endpoint: str) -> bool:
    try:
        httpx.get(endpoint)
    except httpx.TransportError:
        return False
    return True

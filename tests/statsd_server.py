"""A StatsD server for tests. It is ours, not Etsy's: a UDP socket and a parser of its lines, which keeps each gauge's last value.

What is not such a line fails the test. Airflow sends by the library `statsd`, as it does to any server of StatsD.

    packet  = line ("\n" line)*
    line    = name ":" value "|" type ("|@" rate)?          type: c, g, ms, h, s
"""

from __future__ import annotations

import re
import socket
import threading
import time
from types import TracebackType
from typing import Self

_LINE = re.compile(r"([^:|@\n]+):(-?\d+(?:\.\d+)?)\|(c|g|ms|h|s)(?:\|@[\d.]+)?")
_NEVER_SECONDS = 120.0


class StatsdServer:
    """Listens on a port of this machine while its block runs."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._gauges: dict[str, float] = {}
        self._nonsense: list[str] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.sendto(b"", ("127.0.0.1", self.port))  # which ends the thread
        self._thread.join()
        self._socket.close()

    @property
    def settings(self) -> dict[str, str]:
        """Return Airflow's configuration for this server, as environment variables."""
        fields = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(self.port)}
        return {f"AIRFLOW__METRICS__{name}": value for name, value in fields.items()}

    def gauges(self, prefix: str = "airflow.walferry.") -> dict[str, float]:
        """Return the gauges whose names begin with `prefix`, without it. Fails if a packet has arrived that is not StatsD's."""
        with self._changed:
            assert not self._nonsense
            return {name.removeprefix(prefix): value for name, value in self._gauges.items() if name.startswith(prefix)}

    def await_gauge(self, name: str, value: float | None = None) -> dict[str, float]:
        """Wait for a gauge, or until it has this value. Returns all gauges."""
        give_up = time.monotonic() + _NEVER_SECONDS
        with self._changed:
            while (found := self._gauges.get(f"airflow.walferry.{name}")) is None or (value is not None and found != value):
                assert self._changed.wait(give_up - time.monotonic()), (name, self._gauges)
        return self.gauges()

    def _listen(self) -> None:
        while packet := self._socket.recv(65_536):
            with self._changed:
                for line in packet.decode("utf-8", "backslashreplace").split("\n"):
                    if (match := _LINE.fullmatch(line)) is None:
                        self._nonsense.append(line)
                    elif match[3] == "g":
                        self._gauges[match[1]] = float(match[2])
                self._changed.notify_all()

"""Serves an ASGI app over HTTP from a thread of this process, for tests in a browser and for benchmarks."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from embedded.processes import free_port

SECONDS = 30  # for the start and for the stop


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve the app for the length of a block, and yield its address. Raises RuntimeError if it does not start."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, name="a web server", daemon=True)
    thread.start()
    give_up = time.monotonic() + SECONDS
    while not server.started:
        if time.monotonic() > give_up or not thread.is_alive():
            raise RuntimeError(f"the app is not served at port {port} after {SECONDS} s")
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(SECONDS)

"""Ends shipping in the middle of it, so that no call is left behind that could still overtake what the next run ships.

A slave goes on with a request whose connection was cut. So requests under way are waited for before the lease is given up; if one
takes too long, it is cut, and the lease is kept for as long as that of a killed run.
"""

from __future__ import annotations

import logging
import time

from walferry.shipping.lanes import Lanes
from walferry.sinks.sink import Sink
from walferry.zk.client import SESSION_TIMEOUT_SECONDS

CALLS_SECONDS = 10.0  # for calls that were under way

log = logging.getLogger(__name__)


def end_calls(lanes: Lanes, sink: Sink) -> None:
    """Send no further request, and wait for those under way."""
    lanes.stop()
    if lanes.join(CALLS_SECONDS):
        return
    log.warning("the slave has not answered for %g s; the lease is kept for %g s more", CALLS_SECONDS, SESSION_TIMEOUT_SECONDS)
    sink.interrupt()
    time.sleep(SESSION_TIMEOUT_SECONDS)

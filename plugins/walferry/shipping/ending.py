"""Ends shipping in the middle of it: waits for the requests under way, so that the next run need not.

A slave goes on with a request whose connection was cut. If one takes too long it is cut all the same, and the lease tells its
next holder for how long the slave may still carry it out (zk/right.py).
"""

from __future__ import annotations

import logging

from walferry.shipping.lanes import Lanes
from walferry.sinks.sink import Sink

CALLS_SECONDS = 10.0  # for calls that were under way

log = logging.getLogger(__name__)


def end_calls(lanes: Lanes, sink: Sink) -> None:
    """Send no further request, and wait for those under way."""
    lanes.stop()
    if not lanes.join(CALLS_SECONDS):
        log.warning("the slave has not answered for %g s, and is not waited for any longer", CALLS_SECONDS)
        sink.interrupt()

"""Which regions cannot begin to close."""

from __future__ import annotations

from tests.unit.master.looks import B, Site, code, refused
from walferry.master import requests

REGION = code(1)


def test_a_region_that_no_server_serves_does_not_move() -> None:
    site = Site()
    site.add(1, wanted=False)
    refused(lambda snapshot: requests.move(snapshot, REGION, str(B)), site, "cannot be closed now: no server serves it")

"""A status in the form that other programs read."""

from __future__ import annotations

import json

from tests.unit.observe.status.described import BEHIND, HELD, SIZES
from tests.unit.observe.status.views import HOUR, note, notes, view
from walferry.cli.show import fields_of
from walferry.engine.summary import Status
from walferry.observe.status.describing import describe


def test_a_status_can_be_written_as_json() -> None:
    status = describe(view(BEHIND, leases=HELD, notes=notes(note(Status.DONE))), SIZES)
    reported = json.loads(json.dumps(status, default=fields_of))
    group = reported["peers"][0]["queues"][0]["groups"][0]
    assert group["replicationLag"] == {"ms": 3 * HOUR, "certainty": "at most", "why": "no edit is older than its WAL's file"}
    assert (group["holder"]["name"], group["bytes_left"]) == ("batch 7", {"known": 6000, "unsure": 0})
    assert reported["peers"][0]["queues"][0]["kind"] == "Normal"

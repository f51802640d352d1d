"""The values that the replication page proposes fit the forms of the DAGs."""

from __future__ import annotations

import copy
import json
from typing import Any

from tests.unit.observe.status.views import DEAD, HOUR, NOW, queue, view, wal
from walferry.airflow.page import forms
from walferry.observe.status.describing import describe
from walferry.runs.input import moment


def test_what_it_says_to_enter_fits_the_forms(dags: dict[str, Any]) -> None:
    peer = describe(view(queue(wal(NOW - HOUR, server=DEAD), server=DEAD, live=False)))
    (of,), (dead,) = peer.peers or (), peer.dead_servers or ()
    (its,) = of.queues or ()
    offered = [
        forms.ship("hbase_source", of), forms.drain("hbase_source", its), forms.drop("hbase_source", its),
        forms.failover("hbase_source", dead), forms.backfill("hbase_source", of, NOW),
    ]  # fmt: skip
    assert None not in offered
    for form in filter(None, offered):
        params, conf = dags[form.dag_id].params, json.loads(form.conf)
        assert conf.keys() <= params.keys()
        given = copy.deepcopy(params)
        given.update(conf)
        assert given.validate()["source_conn_id"] == "hbase_source"
        assert all(moment(name, conf[name]) for name in ("from_date", "to_date") if name in conf)

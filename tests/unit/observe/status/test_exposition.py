"""The form that measures have for Prometheus."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.observe.status.exposed import samples
from tests.unit.observe.status.views import HOUR, NOW, peer, queue, view, wal
from walferry.observe.status.describing import describe
from walferry.observe.status.exposition import exposition
from walferry.observe.status.measures import MEASURES, Value, measured

BEHIND = queue(wal(NOW - 3 * HOUR, 100), wal(NOW - 2 * HOUR))


def test_prometheus_gets_base_units_and_each_peer_once() -> None:
    config = {"walferry.managed": "true", "walferry.max_lag": "90"}
    status = describe(view(BEHIND, peers=(replace(peer(), config=config), peer("q"))))
    found = list(samples(exposition({"s": measured(status, None), "t": measured(status, None)})))
    assert ("walferry_replication_lag_seconds", {"source": "s", "peer": "p"}, 10_800) in found
    assert ("walferry_max_lag_seconds", {"source": "t", "peer": "p"}, 90) in found
    assert ("walferry_unknown", {"source": "s", "peer": "q", "measure": "walferry_slave_up"}, 1) in found
    assert len({(name, *sorted(labels.items())) for name, labels, _ in found}) == len(found)


def test_hostile_names_stay_in_their_labels() -> None:
    hostile = 'a"} 1\nwalferry_stuck{peer="b\\ \ud800'
    values = [Value(MEASURES["source.stuck"], 1, hostile)]
    (found,) = samples(exposition({"s\\": values}))
    assert found == ("walferry_stuck", {"source": "s\\", "peer": hostile.replace("\ud800", "?")}, 1)

"""Sends measures through Airflow's own metrics: StatsD, Datadog or OpenTelemetry, as section [metrics] of its configuration says.

    walferry.source.replicationLag, tags source and peer       where the backend takes tags: OpenTelemetry, Datadog, and StatsD
                                                               with statsd_influxdb_enabled
    walferry.hbase_source.source.2.replicationLag              StatsD without tags

Names from outside consist of letters, digits, `_` and `-`, so that no character in them ends a name or begins another value. A
name that had to be changed ends with a hash of the original: two names never become one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from airflow.sdk import conf
from airflow.sdk.observability import stats

from walferry.observe.status.measures import UNKNOWN, Value, unknown

PREFIX = "walferry"
MAX_NAME_CHARS = 80  # a whole name may have 250
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def send(source: str, values: Iterable[Value]) -> int:
    """Send the known values, and the number of unknown ones. Return how many were sent."""
    every = list(values)
    missing = [Value(UNKNOWN, len(measures), peer_id) for peer_id, measures in unknown(every).items()]
    known = [each for each in (*every, *missing) if each.value is not None]
    tagged = takes_tags()
    for each in known:
        tags = {"source": safe(source)} if each.peer_id is None else {"source": safe(source), "peer": safe(each.peer_id)}
        value = _number(each.value or 0)
        if tagged:
            stats.gauge(f"{PREFIX}.{each.measure.name}", value, tags=tags)
        else:
            stats.gauge(_with_tags(each.measure.name, tags), value)
    return len(known)


def takes_tags() -> bool:
    """Return whether Airflow's backend takes tags. Airflow looks for backends in this order."""
    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return bool(conf.getboolean("metrics", "statsd_datadog_metrics_tags", fallback=True))
    if conf.getboolean("metrics", "statsd_on", fallback=False):
        return bool(conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False))
    return True


def safe(name: str) -> str:
    """Return the name as a part of a metric's name, or as the value of a tag."""
    if name and len(name) <= MAX_NAME_CHARS and not _UNSAFE.search(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{_UNSAFE.sub('_', name[:MAX_NAME_CHARS])}-{digest}"


def _with_tags(name: str, tags: dict[str, str]) -> str:
    """Return the name with a source's id in it, as HBase writes it in its metrics: source.<id>.<what>."""
    kind, _, what = name.partition(".")
    return ".".join([PREFIX, tags["source"], kind, *([tags["peer"]] if "peer" in tags else []), what])


def _number(value: float) -> float:
    return int(value) if value == int(value) else round(value, 3)

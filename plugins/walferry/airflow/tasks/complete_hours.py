"""The task that announces complete hours: an event for each table and hour, of an asset that others' DAGs wait for.

Which tables there are is known only while the task runs, so no DAG file names these assets as its product: the task adds them to
its own. Airflow's API server keeps the events of assets that some DAG names, and logs a warning of each other one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, Context, Variable

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.sources import own_name
from walferry.airflow.tasks.common import source
from walferry.base.records import record_of

if TYPE_CHECKING:
    from walferry.observe.complete_hours import Mark

VARIABLE = "walferry_complete_hours"  # of each source: {peer: Mark}
MOST_EVENTS = 5000  # of one run, but at least an hour of a peer; the next run goes on
STORED = "success"

log = logging.getLogger(__name__)


@task
def announce() -> None:
    """Announce the hours that peer clusters have had complete since the last run."""
    from walferry.observe import complete_hours as complete

    context = check_run()
    conn_id, cluster = context["params"]["source_conn_id"], source()
    kept = _settled(_kept(conn_id), context)
    valid = complete.valid_peers(cluster)
    marks = {peer: kept.get(peer) or complete.Mark(complete.next_hour(ms)) for peer, ms in valid.items()}
    due = {peer: hours for peer, mark in marks.items() if (hours := complete.new_hours(mark, valid[peer]))}
    tables = complete.tables_of(cluster, due) if due else {}
    left = MOST_EVENTS
    for peer, hours in due.items():
        assets = [Asset(complete.table_uri(conn_id, peer, table)) for table in tables.get(peer, ())]
        told = hours if not assets else hours[: max(1, left // len(assets))] if left > 0 else hours[:0]
        if told:
            left -= len(told) * len(assets)
            add_events(context, assets, list(map(complete.hour_text, told)), {"source": conn_id, "peer": peer})
            marks[peer] = complete.Mark(marks[peer].sure_ms, told[-1] + complete.HOUR_MS, context["ti"].run_id)
            last = complete.hour_text(told[-1])
            print(f"Peer {peer}: {len(told):,} hours of {len(assets):,} tables are complete; the last one began at {last} UTC.")
    if not due:
        print("No further hour is complete.")
    _keep(conn_id, {**{peer: mark for peer, mark in kept.items() if peer not in marks}, **marks})


def add_events(context: Context, assets: Sequence[Asset], hours: Sequence[str], extra: Mapping[str, Any]) -> None:
    """Let the task, once it succeeds, announce these hours of the assets."""
    task = context["task"]
    task.outlets = [*task.outlets, *assets]  # not `append`: the list may be the DAG's, of its next run as well
    for asset in assets:
        event = context["outlet_events"][asset]
        event.extra.update(extra)
        event.add_partitions(list(hours))


def _settled(kept: Mapping[str, Mark], context: Context) -> dict[str, Mark]:
    """Return the marks, now that it is known whether the events of the last runs were stored."""
    ti = context["ti"]
    runs = sorted({mark.by for mark in kept.values() if mark.by})
    states = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=runs) if runs else {}
    stored = {run for run, by_task in states.items() if STORED in by_task.values()}
    return {peer: mark.settled(stored) for peer, mark in kept.items()}


def _kept(conn_id: str) -> dict[str, Mark]:
    """Return the marks that earlier runs have left for the source. Without a mark that makes sense, a peer begins anew."""
    from walferry.observe.complete_hours import Mark

    value: Any = Variable.get(own_name(VARIABLE, conn_id), default=None, deserialize_json=True)
    found, now = {}, int(time.time() * 1000)
    for peer, mark in (value if isinstance(value, Mapping) else {}).items():
        try:
            found[peer] = record_of(Mark, mark).checked(now)
        except ValueError as error:
            log.warning("which hours of peer %s were announced is not known, so it begins anew: %s", peer, error)
    return found


def _keep(conn_id: str, marks: Mapping[str, Mark]) -> None:
    """Leave the marks for the next run."""
    text = "Up to which hour Walferry has announced that peer clusters are complete"
    value = {peer: asdict(mark) for peer, mark in sorted(marks.items())}
    Variable.set(own_name(VARIABLE, conn_id), value, description=text, serialize_json=True)

"""The task of the watching DAG: look, send metrics, and notify people of what is wrong.

It fails when there is something to notify of, is skipped while what people were notified of goes on, and succeeds if all is well.
So whatever hangs on Airflow's failures tells of each finding at once, then after growing intervals, and not each minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Variable, get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.tasks.common import source
from walferry.runs.failures import MAX_REASONS, Failures

VARIABLE = "walferry_notified"  # {connection: {"notified": …, "old_wals_at": …}}
MAX_CONNECTIONS = 20
OLD_WALS_EVERY = 600.0  # seconds: it is listed as a whole
MAX_LINES = 50

log = logging.getLogger(__name__)


class ReplicationFindings(Failures):
    """Something is wrong of which people are to be notified."""


@task
def watch() -> None:
    """Take a status of the source, record it, send its metrics, and notify people of what is wrong."""
    from walferry.airflow.notifying import notifiers, notify
    from walferry.airflow.stats import send
    from walferry.airflow.steps.watch import look
    from walferry.observe.status import notified
    from walferry.observe.status.findings import of_source
    from walferry.observe.status.measures import measured

    context = get_current_context()
    check_run(context)
    those = notifiers()
    params, conn_id, now = context["params"], context["params"]["source_conn_id"], time.time()
    kept = _kept(conn_id)
    due = not 0 <= now - kept["old_wals_at"] < OLD_WALS_EVERY
    seen = look(source, due)
    sent = send(conn_id, measured(seen.status, seen.old_wals))
    print(f"{len(seen.status.peers or ()):,} peers, {sent:,} values for Airflow's metrics")
    findings = of_source(seen.status, seen.old_wals, params["warn_days_left"])
    found = notified.notifications(notified.from_json(kept["notified"], now), findings, now)
    if not found.text or notify(those, context, found.text):
        at = now if seen.old_wals is not None else kept["old_wals_at"]
        _keep(conn_id, {"notified": notified.to_json(found.notified), "old_wals_at": at}, kept)
    _end(found.new, found.over, found.quiet)


def _end(new: tuple[str, ...], over: tuple[str, ...], quiet: tuple[str, ...]) -> None:
    """Tell in the log, whose last line is what this run ends with."""
    for line in over[:MAX_LINES]:
        log.info("%s", line)
    for line in quiet[:MAX_LINES]:
        log.warning("%s", line)
    for line in new[MAX_REASONS:MAX_LINES]:  # the run ends with the first ones
        log.error("%s", line)
    if new:
        raise ReplicationFindings(new, "see the page Replication, or `walferry status`")
    if quiet:
        raise AirflowSkipException("; ".join(quiet[:MAX_LINES]))
    print("All is well.")


def _kept(conn_id: str) -> dict[str, Any]:
    """What earlier runs have left of the connection; begun anew if it makes no sense."""
    mine = _variable().get(conn_id)
    found = mine if isinstance(mine, Mapping) else {}
    at = found.get("old_wals_at")
    return {"notified": found.get("notified", {}), "old_wals_at": at if type(at) in (int, float) else 0.0}


def _keep(conn_id: str, state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Leave it to the next run. A failure is logged: then people are notified again of what goes on."""
    if state == before:
        return
    try:
        others = [(name, each) for name, each in _variable().items() if name != conn_id]
        value = {**dict(others[: MAX_CONNECTIONS - 1]), conn_id: state}
        Variable.set(VARIABLE, value, description="Of what Walferry has notified people", serialize_json=True)
    except Exception as error:
        log.warning("of what people were notified could not be kept: %s: %s", type(error).__name__, error)


def _variable() -> dict[str, Any]:
    try:
        value: Any = Variable.get(VARIABLE, default=None, deserialize_json=True)
    except Exception as error:
        log.warning("of what people were notified before is not known: %s: %s", type(error).__name__, error)
        return {}
    return value if isinstance(value, dict) else {}

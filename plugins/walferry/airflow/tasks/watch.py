"""The task of the watching DAG: look, send metrics, and tell of what is wrong.

It fails when there is something to tell, is skipped while what it has told goes on, and succeeds if all is well. So whatever
hangs on Airflow's failures tells of each trouble at once, then after growing intervals, and not each minute.
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

VARIABLE = "walferry_alerts"  # {connection: {"alerts": …, "old_wals_at": …}}, what was told
MAX_CONNECTIONS = 20
OLD_WALS_EVERY = 600.0  # seconds: it is listed as a whole
MAX_LINES = 50

log = logging.getLogger(__name__)


class Troubles(Failures):
    """There is something to tell."""


@task
def watch() -> None:
    """Take a status of the source, record it, send its metrics, and tell of what is wrong."""
    from walferry.airflow.notifying import notifiers, notify
    from walferry.airflow.stats import send
    from walferry.airflow.steps.watch import look
    from walferry.observe.status import alerts
    from walferry.observe.status.measures import measured
    from walferry.observe.status.troubles import of_source

    context = get_current_context()
    check_run(context)
    those = notifiers()
    params, conn_id, now = context["params"], context["params"]["source_conn_id"], time.time()
    kept = _kept(conn_id)
    due = not 0 <= now - kept["old_wals_at"] < OLD_WALS_EVERY
    seen = look(source, due)
    sent = send(conn_id, measured(seen.status, seen.old_wals))
    print(f"{len(seen.status.peers or ()):,} peers, {sent:,} values for Airflow's metrics")
    looked = of_source(seen.status, seen.old_wals, params["warn_days_left"])
    told = alerts.tell(alerts.from_json(kept["alerts"], now), looked, now)
    if not told.text or notify(those, context, told.text):
        at = now if seen.old_wals is not None else kept["old_wals_at"]
        _keep(conn_id, {"alerts": alerts.to_json(told.alerts), "old_wals_at": at}, kept)
    _end(told.troubles, told.over, told.quiet)


def _end(troubles: tuple[str, ...], over: tuple[str, ...], quiet: tuple[str, ...]) -> None:
    """Tell in the log, whose last line is what this run ends with."""
    for line in over[:MAX_LINES]:
        log.info("%s", line)
    for line in quiet[:MAX_LINES]:
        log.warning("%s", line)
    for line in troubles[MAX_REASONS:MAX_LINES]:  # the run ends with the first ones
        log.error("%s", line)
    if troubles:
        raise Troubles(troubles, "see the page Replication, or `walferry status`")
    if quiet:
        raise AirflowSkipException("; ".join(quiet[:MAX_LINES]))
    print("All is well.")


def _kept(conn_id: str) -> dict[str, Any]:
    """What earlier runs have left of the connection; begun anew if it makes no sense."""
    mine = _variable().get(conn_id)
    found = mine if isinstance(mine, Mapping) else {}
    at = found.get("old_wals_at")
    return {"alerts": found.get("alerts", {}), "old_wals_at": at if type(at) in (int, float) else 0.0}


def _keep(conn_id: str, state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Leave it to the next run. A failure is logged: then what goes on is told again."""
    if state == before:
        return
    try:
        others = [(name, each) for name, each in _variable().items() if name != conn_id]
        value = {**dict(others[: MAX_CONNECTIONS - 1]), conn_id: state}
        Variable.set(VARIABLE, value, description="What Walferry's alerts have told", serialize_json=True)
    except Exception as error:
        log.warning("what was told could not be kept: %s: %s", type(error).__name__, error)


def _variable() -> dict[str, Any]:
    try:
        value: Any = Variable.get(VARIABLE, default=None, deserialize_json=True)
    except Exception as error:
        log.warning("what was told before is not known: %s: %s", type(error).__name__, error)
        return {}
    return value if isinstance(value, dict) else {}

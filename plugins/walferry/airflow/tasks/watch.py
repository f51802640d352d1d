"""The task of the watching DAG: look, send metrics, and notify people of what is wrong.

The task fails when there is a finding to notify of. It is skipped while findings go on of which people were notified, and
succeeds if all is well. So everything that hangs on Airflow's failures reports each finding at once, then after growing
intervals, and not each minute.

An administrator names Airflow's notifiers, or other callables that take a task's context, in Airflow's configuration, never in a
form or a Variable: section [walferry], option `notifiers`. Its value is the dotted path of a notifier or of a list of notifiers,
such as `company.alerts.REPLICATION`. Their templates can use `alert`, the text.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airflow.sdk import Variable, conf
from airflow.sdk.exceptions import AirflowSkipException

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.options import SECTION, option
from walferry.airflow.sources import own_name
from walferry.airflow.tasks.common import source
from walferry.base.errors import WalferryError
from walferry.runs.failures import MAX_REASONS, Failures

VARIABLE = "walferry_notified"  # of each source: {"notified": …, "old_wals_at": …}
OLD_WALS_EVERY = 600.0  # seconds between two looks: oldWALs is listed as a whole
MAX_LINES = 50
OPTION = "notifiers"

Notifier = Callable[[Any], Any]

log = logging.getLogger(__name__)


class ReplicationFindings(Failures):
    """Something is wrong, and people are to be notified of it."""


@task
def watch() -> None:
    """Take a status of the source, record it, send its metrics, and notify people of what is wrong."""
    from walferry.airflow.stats import send
    from walferry.observe.status import notified
    from walferry.observe.status.findings import of_source
    from walferry.observe.status.measures import measured
    from walferry.observe.status.statuses import look

    context = check_run()
    those = notifiers()
    params, conn_id, now = context["params"], context["params"]["source_conn_id"], time.time()
    kept = _kept(conn_id)
    due = not 0 <= now - kept["old_wals_at"] < OLD_WALS_EVERY
    status, old_wals = look(source, due)
    sent = send(conn_id, measured(status, old_wals))
    print(f"{len(status.peers or ()):,} peers, {sent:,} values for Airflow's metrics")
    findings = of_source(status, old_wals, params["warn_days_left"])
    found = notified.notifications(notified.from_json(kept["notified"], now), findings, now)
    if not found.text or notify(those, context, found.text):
        at = now if old_wals is not None else kept["old_wals_at"]
        _keep(conn_id, {"notified": notified.to_json(found.notified), "old_wals_at": at}, kept)
    _end(found.new, found.over, found.quiet)


def _end(new: tuple[str, ...], over: tuple[str, ...], quiet: tuple[str, ...]) -> None:
    """Log the findings. The last line of the log is how this run ends."""
    for line in over[:MAX_LINES]:
        log.info("%s", line)
    for line in quiet[:MAX_LINES]:
        log.warning("%s", line)
    for line in new[MAX_REASONS:MAX_LINES]:  # the run ends with the first lines
        log.error("%s", line)
    if new:
        raise ReplicationFindings(new, "see the page Replication, or `walferry status`")
    if quiet:
        raise AirflowSkipException("; ".join(quiet[:MAX_LINES]))
    print("All is well.")


def _kept(conn_id: str) -> dict[str, Any]:
    """Return what earlier runs have left for the source; an empty state if it makes no sense."""
    try:
        value: Any = Variable.get(own_name(VARIABLE, conn_id), default=None, deserialize_json=True)
    except Exception as error:
        log.warning("of what people were notified before is not known: %s: %s", type(error).__name__, error)
        value = None
    found = value if isinstance(value, Mapping) else {}
    at = found.get("old_wals_at")
    return {"notified": found.get("notified", {}), "old_wals_at": at if type(at) in (int, float) else 0.0}


def _keep(conn_id: str, state: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Leave the state for the next run. A failure is only logged: then people are notified again of findings that go on."""
    if state == before:
        return
    try:
        text = "Of what Walferry has notified people"
        Variable.set(own_name(VARIABLE, conn_id), state, description=text, serialize_json=True)
    except Exception as error:
        log.warning("of what people were notified could not be kept: %s: %s", type(error).__name__, error)


class NotNotifiers(WalferryError):
    """The configuration does not name notifiers."""

    retry_helps = False


def notifiers() -> Sequence[Notifier]:
    """Return the notifiers of the configuration. Raises NotNotifiers."""
    named = option(OPTION)
    if not named:
        return ()
    where = f"option {OPTION} in section [{SECTION}] of Airflow's configuration, {named!r}"
    try:
        found: Any = conf.getimport(SECTION, OPTION)
    except Exception as error:  # any error that the module raises
        raise NotNotifiers(f"{where}, cannot be imported: {type(error).__name__}: {error}") from error
    every = list(found) if isinstance(found, (list, tuple)) else [found]
    if not all(callable(each) for each in every):
        raise NotNotifiers(f"{where}, is neither a notifier nor a list of them")
    return every


def notify(those: Sequence[Notifier], context: Mapping[str, Any], text: str) -> bool:
    """Notify people. Return whether a notifier succeeded or there are none; the failures of others are logged."""
    reported = 0
    for each in those:
        try:
            copy.copy(each)({**context, "alert": text})  # a notifier renders its fields in place
            reported += 1
        except Exception as error:  # a notifier is not our code, and must keep neither the others nor the run from going on
            # The error's text is not shown: it often contains the address that was called, which is the secret of a webhook.
            log.error("the notifier %s has failed: %s", type(each).__name__, type(error).__name__)
    return bool(reported) or not those

"""Keeps what a run has reported for as long as the run exists.

When a run, or its report, is cleared, Airflow deletes the report's XCom. Usually nothing is left to ship by then, so the new
report alone would show zeros where the run has shipped something. The reports of all attempts are kept in Airflow's task state
store, which clearing leaves alone, and each report includes the earlier ones.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time.context import NEVER_EXPIRE

from walferry.runs.reports.batch import AGES

KEY = "reports"
MAX_KEPT = 10  # the newest reports of one run are kept whole; of older ones only the totals are
# Figures that say how things stand now.
NOT_ADDED = ("sizeOfLogQueue", "bytesToShip", "bytesDone", "failedRecoverQueues", *AGES, "timestampOfNextToReplicate")
TOLD = ("completedLogs", "shippedOps", "shippedBytes")

log = logging.getLogger(__name__)


def with_earlier(context: Context, attempt: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Add the `totals` of the whole run and the reports of its `earlier` attempts to this report, and keep it for later.

    A report that was kept under the same attempt's name is replaced. It counts if the attempt's summaries are gone by now.
    """
    store = context["task_state_store"]
    try:
        known: Any = store.get(KEY, [])
    except AirflowRuntimeError as error:  # a report of this attempt alone is better than none
        log.warning("the reports of earlier attempts could not be read: %s", error)
        return {**report, "attempt": attempt, "earlier": []}
    kept: list[dict[str, Any]] = known
    earlier = [entry for entry in kept if entry["attempt"] != attempt or entry.get("peer") != report.get("peer")]
    before = next((entry for entry in kept if entry not in earlier), None)
    mine = {**report, "attempt": attempt}
    if before and _rows(before) and not _rows(report):
        mine = {**before, "ok": report["ok"], "failures": report["failures"]}
    told = [*earlier, mine]
    now: Any = [*map(_figures, told[:-MAX_KEPT]), *told[-MAX_KEPT:]]
    store.set(KEY, now, retention=NEVER_EXPIRE)
    of_same = [entry for entry in earlier if entry.get("peer") == report.get("peer")]
    return {**mine, "totals": added(mine["totals"], [entry["totals"] for entry in of_same]), "earlier": earlier}


def as_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for the log about each earlier attempt."""
    return [
        f"Attempt {entry['attempt']} of this run has reported"
        + (f" of peer {entry['peer']}: " if "peer" in entry else ": ")
        + ", ".join(f"{name} {entry['totals'].get(name, 0):,}" for name in TOLD)
        for entry in report["earlier"]
    ]


def added(totals: Mapping[str, Any], earlier: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the totals of earlier attempts; figures that are not counts stay as they are now, and the last known age is kept."""
    result = dict(totals)
    for other in earlier:
        for name, value in other.items():
            if isinstance(value, dict):
                result[name] = added(result.get(name) or {}, [value])
            elif name not in NOT_ADDED and value is not None:
                result[name] = (result.get(name) or 0) + value
    if result.get("ageOfLastShippedOp", 0) is None:
        ages = [other.get("ageOfLastShippedOp") for other in earlier]
        result["ageOfLastShippedOp"] = next((age for age in reversed(ages) if age is not None), None)
    return result


def _figures(report: Mapping[str, Any]) -> dict[str, Any]:
    return {name: report[name] for name in ("attempt", "peer", "totals") if name in report}


def _rows(report: Mapping[str, Any]) -> Any:
    return report.get("groups") or report.get("queues")

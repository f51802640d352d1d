"""Checks in a run's first task, before anything is done, whether the run may begin."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from airflow.sdk import Context, get_current_context

from walferry.airflow.sources import own_name
from walferry.runs.input import InputError, named

# For a DAG's `allowed_run_types`: all types but backfills. Airflow then refuses a backfill before it clears earlier runs.
RUN_TYPES = ["scheduled", "manual", "operator_triggered", "asset_triggered"]
# Airflow's TriggerDagRunOperator adds this to a run's conf, for OpenLineage.
ADDED_BY_AIRFLOW = frozenset({"openlineage"})
MAX_NAME_CHARS = 100


def check_run() -> Context:
    """Refuse a backfill, and a conf with parameters that the DAG does not have. Return the run's context. Raises InputError."""
    context = get_current_context()
    run = context["dag_run"]
    if is_backfill(run):
        raise InputError(
            f"{run.dag_id} cannot be backfilled: a WAL is shipped once, from where the positions in ZooKeeper are, whatever the "
            "date of the run. To ship the queued edits now, trigger a run by hand. To ship an interval again, backfill "
            + own_name("replay_interval", context["params"]["source_conn_id"])
        )
    check_conf(run.dag_id, run.conf or {}, context["dag"].params.keys(), context["params"])
    return context


def is_backfill(run: Any) -> bool:
    """Return whether a backfill has made the run."""
    return str(getattr(run.run_type, "value", run.run_type)) == "backfill"


def peer_of(context: Context) -> str:
    """Return the parameter `peer` of a run that is for one peer. Raises InputError if it is empty."""
    if peer := context["params"]["peer"]:
        return str(peer)
    left_out = is_backfill(context["dag_run"])  # Airflow's form leaves all parameters out
    also = ", and in Airflow's form of a backfill tick Override parameters on existing runs" if left_out else ""
    raise InputError(f"the run needs a peer: give it as the parameter `peer`{also}. Nothing was done")


def check_conf(dag_id: str, conf: Mapping[str, Any], known: Collection[str], params: Mapping[str, Any]) -> None:
    """Refuse names that are not parameters of the DAG, and values that Airflow did not pass on. Raises InputError.

    `known` are the DAG's parameters, and `params` their values as Airflow gives them to the run.
    """
    there = f"Parameters of {dag_id}: {named(known)}. Nothing was done"
    unknown = [str(name) for name in conf if name not in known and name not in ADDED_BY_AIRFLOW]
    if unknown:
        raise InputError("; ".join(_unknown(name, known) for name in unknown[:10]) + f". {there}")
    ignored = [name for name in known if name in conf and conf[name] != params[name]]
    if ignored:
        raise InputError(
            f"{named(ignored)}: Airflow does not hand on what the run was given. Set dag_run_conf_overrides_params in section "
            f"[core] of Airflow's configuration to True. {there}"
        )


def _unknown(name: str, known: Collection[str]) -> str:
    nearest = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"there is no parameter {name[:MAX_NAME_CHARS]!r}" + (f" (did you mean {nearest[0]!r}?)" if nearest else "")

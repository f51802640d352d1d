"""The task that keeps the master's role of a cluster of HBase 1 for as long as no HMaster is active.

While an HMaster is active the task waits in the triggerer. While it has the role it runs in a worker of its own: RegionServers
call it there, and a pass over many regions would hold up all other triggers of a triggerer.
"""

from __future__ import annotations

import copy
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from airflow.sdk import BaseOperator, Context, Param
from airflow.sdk.exceptions import AirflowException

from walferry.airflow.endings import ends_plainly
from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import LiteralFields
from walferry.airflow.options import option
from walferry.airflow.sources import names_in, of_source
from walferry.airflow.tasks.common import source
from walferry.airflow.tasks.regions import ROLE_PARAMS, terms
from walferry.airflow.triggers.no_master import NoMasterTrigger

STALE_SECONDS = 60.0  # between the trigger's event and the worker's start; then an HMaster may have come back


def kept_for(conn_id: str) -> str | None:
    """Return when the role of a source's cluster is kept by itself: for the sources of the option, as long as the DAG runs."""
    if conn_id in names_in(option("region_masters")):
        return "*/5 * * * *"  # a run goes on for ever, so this is for the next one after a failure
    return None


def kept_params(conn_id: str) -> dict[str, Param]:
    """Return the parameters of a source's DAG. Runs that the schedule begins have their defaults."""
    address = of_source(option("region_master_address"), conn_id)
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        host, port = address, "0"
    role = ROLE_PARAMS | {
        "limit_minutes": _with(ROLE_PARAMS["limit_minutes"], minimum=1),
        "host": _with(ROLE_PARAMS["host"], host or None),
        "port": _with(ROLE_PARAMS["port"], int(port)),
    }
    return {**_OWN, **{name: param for name, param in role.items() if name != "wait_minutes"}}


def _with(param: Param, value: Any = None, **schema: Any) -> Param:
    """Return the parameter with another default, if one is given, and with these limits."""
    changed = copy.deepcopy(param)
    changed.value = param.value if value is None else value
    changed.schema |= schema
    return changed


_OWN = {
    "patience": Param(
        30, type="number", minimum=0, maximum=86_400, title="Patience",
        description="Seconds without a master before the run takes the master's role.",
    ),
    "balance_minutes": Param(
        5, type="number", minimum=0, maximum=100_000, title="Balance",
        description="Minutes between two looks at the balance of regions, with moves if one server has too many; 0: none.",
    ),
    "yields": Param(
        True, type="boolean", title="Yield to an HMaster",
        description="Give the role back as soon as an HMaster waits to become active. Without it the HMaster waits until the run "
        "ends.",
    ),
    "clients": Param(
        True, type="boolean", title="Tables by clients",
        description="Let HBase's clients enable and disable tables, without a check of rights, as HBase does without its "
        "AccessController. Refused if the cluster keeps rights in hbase:acl.",
    ),
}  # fmt: skip


class RegionMasterOperator(LiteralFields, BaseOperator):
    """Keeps the master's role of the run's source while no HMaster is active, with the run's parameters. Never ends by itself.

    A killed task may be tried again at any time: the next try goes on with what ZooKeeper says.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._stop = threading.Event()

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Check that the role of the cluster can be kept, and wait until it has no master."""
        from walferry.master.keeping import check_keepable
        from walferry.replication.source.session import open_session

        check_run()
        with open_session(source(), look_only=True) as session:
            check_keepable(session)
        self._wait(context)

    @ends_plainly
    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """Keep the role until an HMaster waits for it, and wait again then."""
        from walferry.master.errors import LiveMaster, RoleHeld
        from walferry.master.keeping import keep_role
        from walferry.replication.source.session import open_session

        if "error" in event:
            raise AirflowException(event["error"])
        if time.time() - event["at"] > STALE_SECONDS:
            self._wait(context)
        params = context["params"]
        # No `run`: the last try's role ends with its session, and another Airflow may have a run of the same name.
        ours = replace(terms(), run=None, serves_clients=bool(params["clients"]))
        balance = 60.0 * params["balance_minutes"] or None

        def keep() -> None:
            with open_session(source_here) as session:
                keep_role(session, ours, self._stop, print, balance_seconds=balance, yields=bool(params["yields"]))

        source_here = source()
        # In a thread: Airflow calls `on_kill` in a signal's handler of the main thread, which must not wait for its own locks.
        with ThreadPoolExecutor(1, "region-master") as pool:
            try:
                pool.submit(keep).result()
            except (LiveMaster, RoleHeld) as error:
                print(f"Another master was faster: {error}")
        if self._stop.is_set():
            raise AirflowException("the task was killed, and has given the master's role back")
        self._wait(context)

    def on_kill(self) -> None:
        """Let the task give the role back. Airflow calls this from a signal's handler, after which the task goes on."""
        self._stop.set()

    def _wait(self, context: Context) -> None:
        params = context["params"]
        print(f"Waiting until the cluster has had no master for {params['patience']:g} s.")
        trigger = NoMasterTrigger(params["patience"], params["source_conn_id"])
        self.defer(trigger=trigger, method_name="execute_complete")

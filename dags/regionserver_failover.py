"""A RegionServer has died: claim its replication queues, drain them, and tidy up.

The asset's watcher sees a server leave ZooKeeper's `rs`, and also finds servers that died while it was not running. Each death,
or several together, begins a run, even while another run drains. A run that is triggered by hand recovers one server, or all
servers that are dead now.

Queues that HBase itself has claimed are drained where they lie. A queue that fails does not stop the others; it stays queued, and
the run fails. You can clear the run, or trigger another one by hand, at any time.
"""

from __future__ import annotations

from airflow.sdk import Asset, AssetWatcher, Param, get_current_context

from walferry.airflow.forms import choices
from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.operators.ship_wals import SHIP_PARAMS
from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.sources import own_name
from walferry.airflow.tasks.common import events_of, source, telling
from walferry.airflow.tasks.recovery import DEADLINE, recover
from walferry.airflow.triggers.dead_servers import DeadServersEventTrigger


def dead_servers(conn_id: str) -> list[Asset]:
    """Return the asset whose watcher announces the source's dead servers."""
    watcher = AssetWatcher(name=conn_id, trigger=DeadServersEventTrigger(conn_id))
    return [Asset(own_name("hbase-dead-servers", conn_id), watchers=[watcher])]


@dag_of_each_source(
    schedule=dead_servers,
    max_active_runs=4,
    max_active_tasks=128,  # of a run: the peers share no places
    description="Claim and drain the replication queues of RegionServers that have died",
    params={
        "server": Param(
            None,
            type=["null", "string"],
            maxLength=300,
            title="Dead server",
            description="host,port,start code of one dead RegionServer; empty for all that are dead now.",
        ),
        "deadline": DEADLINE,
        **SHIP_PARAMS,
    },
    minutes=30,
    doc_md=__doc__,
)
def regionserver_failover(conn_id: str) -> None:
    @task
    def find() -> list[str]:
        """Return the dead servers of this run: the server in its form, else the servers in its events, else all."""
        from walferry.runs.steps import recovery

        context = get_current_context()
        with telling("find"):
            check_run()
            found = recovery.find(source(), context["params"]["server"] or "", recovery.announced(events_of(context)))
        print("\n".join([f"Dead servers to recover: {', '.join(found.servers) or 'none'}.", *found.notes]))
        context["ti"].xcom_push("notes", found.notes)
        choices.refresh(source(), conn_id)
        return found.servers

    recover("find", servers=find())

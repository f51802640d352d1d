"""Watch replication of a source cluster: lag, stuck peers, peer clusters that are down, orphaned queues, and oldWALs that fill
the disk.

Each minute `watch` looks at ZooKeeper, at the waiting WALs, and at the peer clusters. It records samples for plots of the last
day, sends metrics through Airflow's own (StatsD, Datadog, OpenTelemetry), and notifies people of findings:

- it *fails* with a line for each finding that is new or goes on for long: 5 minutes after the first time, 15 after the second,
  then an hour, 4 hours, and each day;
- it is *skipped* while findings go on, and people were notified of all of them;
- it *succeeds* if nothing is wrong.

So hang Airflow's notifiers on failures of this DAG, or name them in Airflow's configuration: option `notifiers` of section
`[walferry]`. These notifiers also report the end of a finding. docs/monitoring.md lists all metrics, alerts and settings.

The DAG changes nothing in the cluster. If a run is killed, the next run sends its notifications.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.options import option
from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.sources import of_source
from walferry.airflow.tasks.watch import watch


@dag_of_each_source(
    schedule=lambda conn_id: of_source(option("watch_schedule"), conn_id),
    max_active_runs=1,
    description="Watch replication of an HBase cluster: metrics and alerts",
    params={
        "warn_days_left": Param(
            7,
            type="number",
            minimum=0,
            title="Warn of a full disk",
            description="Alert if what queues keep in oldWALs fills the disk within so many days.",
        )
    },
    minutes=3,
    retries=0,  # the next run is the next try
    doc_md=__doc__,
)
def watch_replication(conn_id: str) -> None:
    watch()

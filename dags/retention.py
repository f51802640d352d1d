"""Report the WALs in oldWALs, what keeps them from HBase's log cleaner and for how long, and when the disk will be full.

HBase keeps a WAL in oldWALs while any peer's queue names it. `report` lists the WALs with their age, their size and the queues
that hold them, and the peers that block the cleaner: peers that are shipped slowly, that no run ships, or that are gone. `check`
fails if a threshold is passed, so the run shows a warning, and Airflow's callbacks can report it. `expire_archive` deletes copies
of WALs from the source's archive when their time there is over. No task changes anything in the cluster.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.retention import check, expire_archive, report


@dag_of_each_source(
    schedule="@hourly",
    max_active_runs=1,
    description="Report what keeps WALs of an HBase cluster from being deleted, and when the disk is full",
    params={
        "ttl": Param(
            600,
            type="number",
            minimum=0,
            title="TTL of old WALs",
            description="The source's hbase.master.logcleaner.ttl, in seconds.",
        ),
        "warn_held_gib": Param(
            100, type="number", minimum=0, title="Warn of bytes", description="Warn if queues hold more GiB in oldWALs."
        ),
        "warn_blocked_hours": Param(
            24,
            type="number",
            minimum=0,
            title="Warn of age",
            description="Warn of each peer that has held a WAL for more hours than its TTL.",
        ),
        "warn_days_left": Param(
            7,
            type="number",
            minimum=0,
            title="Warn of a full disk",
            description="Warn if the disk will be full within so many days.",
        ),
        "listed": Param(
            200,
            type="integer",
            minimum=0,
            maximum=1_000_000,
            title="WALs to list",
            description="How many files the log lists one by one, oldest first.",
        ),
    },
    minutes=30,
    doc_md=__doc__,
)
def retention(conn_id: str) -> None:
    check(report())  # type: ignore[arg-type]
    expire_archive()

"""Check the connections of a source cluster and of its peer clusters, from the files of the logins to the last right.

`check` looks at keytabs, tickets and certificates, at ZooKeeper, at each server, at the rights that Walferry needs, at the file
system, at the peers and at queues that no run ships. It runs a small job on the Spark Connect server of the connection
`spark_connect`, if there is one. Each line says what works, or what does not and what to do about it. The task fails if something
does not work. Start the DAG after a change of connections, keytabs or rights; `walferry check` is the same as a command. The DAG
changes nothing in the clusters.

The checks run on the machine of an Airflow worker. Spark's driver and executors need the same files, under the same paths.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.checks import check


@dag_of_each_source(
    schedule=None,
    max_active_runs=4,
    description="Check logins, servers and rights of a source cluster and its peer clusters",
    params={
        "peer": Param(
            None,
            type=["null", "string"],
            title="Peer",
            description="The peer to check, with its peer cluster. Empty: all peers, and dead servers' and orphaned queues.",
        )
    },
    minutes=15,
    retries=0,
    run_types=None,  # a failure is the DAG's result
    doc_md=__doc__,
)
def check_connections(conn_id: str) -> None:
    check()

"""Bring the tables of state of lakes up to date: what HBase's tables have now, made of the lake's tables of changes.

For each peer whose edits go into a lake, `merge` is the Spark job. It reads what batches have appended to each table of changes
since the last merge, and replaces the files of the table of state whose rows have changed. HBase's rules of versions, delete
markers and TTL decide what is there then. Killed at any moment, the next run goes on from the last commit.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.common import peer_param
from walferry.airflow.tasks.merging import merging_tasks

PARAMS = {
    "peer": peer_param("Id of one peer whose edits go into a lake; empty for all such managed peers."),
    "tables": Param(
        None, type=["null", "array"], items={"type": "string"}, title="Tables",
        description='One a line, as "table" or "namespace:table"; empty for all that have changes in the lake.',
    ),
}  # fmt: skip


@dag_of_each_source(
    schedule="20 * * * *",
    max_active_runs=1,  # of two merges of one table, one could not commit
    description="Bring the tables of state of lakes up to date with their tables of changes",
    params=PARAMS,
    minutes=10,
    doc_md=__doc__,
)
def merge_changes(conn_id: str) -> None:
    merging_tasks()

"""Give up the rest of a broken WAL, so that its WAL group goes on.

A WAL group stops at bytes that cannot be a part of a WAL, or that the file system has lost. If no sound copy of the file can be
had, a person decides. `look` reads the WAL to its damage. `approve` shows the place, and how many bytes would be given up.
`permit` notes the yes. `ship` is a run of replicate_peer: it ships what lies before the damage, copies the file to the folder
that `quarantine` in the connection's extra names, with a note, and goes on with the next WAL. HBase's file stays as it is.
`check` fails if the WAL is still queued.

A yes counts for the bytes that were shown. If the file is sound by then, nothing is given up. The peer cluster lacks edits
afterwards: compare the tables with verify_peer, which can also ship the rows again.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.common import one_peer_param
from walferry.airflow.tasks.quarantine import quarantine_tasks

PARAMS = {
    "peer": one_peer_param(),
    "wal": Param(
        None,
        type=["null", "string"],
        maxLength=2000,
        title="WAL",
        description="Name or path of the broken file, as the error names it.",
    ),
}


@dag_of_each_source(
    schedule=None, max_active_runs=4, description="Give up the rest of a broken WAL", params=PARAMS, minutes=60, doc_md=__doc__
)
def quarantine_wal(conn_id: str) -> None:
    quarantine_tasks(conn_id)

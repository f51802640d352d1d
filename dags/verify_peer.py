"""Compare the tables of replication peers at the source and at their peer clusters, as HBase's VerifyReplication does.

For each peer, `compare` is the Spark job. One task per region of the source scans both sides, hashes their rows, and looks at
single rows only where the hashes differ. It compares only the tables and families that the peer gets. `clocks` measures how far
the clocks of the two clusters are apart. `report` shows good, missing, extra and different rows with samples, and fails if any
row differs.

Rows that differ are compared again later, because they may be in flight. With `repair`, the run shows the differences as a
required action. Once a person has approved it, `repair` compares these tables again, and ships rows that the peer cluster still
lacks or has differently. Rows that only the peer cluster has are reported and left alone. The DAG writes nothing to the source's
tables.

With `from_files`, both clusters take snapshots, for which they flush the tables. The tasks compare the snapshots' files, and scan
only the rows that differ there.
"""

from __future__ import annotations

from airflow.sdk import Param, task_group

from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.common import peer_param
from walferry.airflow.tasks.verification import GROUP, peers, verification_of

ROW = "As HBase's shell shows it, e.g. abc\\x00. Empty for no limit."
TIME = "With its zone, e.g. 2026-01-31T00:00:00+00:00: only cells with timestamps {} are compared. Empty for no limit."
PARAMS = {
    "peer": peer_param("Id of one peer, whether Walferry ships it or HBase; empty for all managed peers with a peer cluster."),
    "tables": Param(
        None, type=["null", "array"], items={"type": "string"}, title="Tables",
        description='One a line, as "table" or "namespace:table"; empty for all that the peer gets.',
    ),
    "start_row": Param(None, type=["null", "string"], title="First row", description=ROW),
    "stop_row": Param(None, type=["null", "string"], title="Row after the last one", description=ROW),
    "start_time": Param(None, type=["null", "string"], format="date-time", title="From", description=TIME.format("from then on")),
    "end_time": Param(None, type=["null", "string"], format="date-time", title="To", description=TIME.format("before")),
    "versions": Param(
        1, type="integer", minimum=1, maximum=2**31 - 1, title="Versions", description="The newest versions of a column."
    ),
    "deleted": Param(
        False, type="boolean", title="Deleted cells",
        description="Compare delete markers and what they hide too. Each side drops these when it compacts, so equal tables "
        "may differ in them.",
    ),
    "recompares": Param(
        2, type="integer", minimum=0, maximum=10, title="Recompares", description="How often rows that differ are compared again."
    ),
    "recompare_seconds": Param(
        300, type="integer", minimum=0, maximum=3600, title="Pause before a recompare",
        description="Seconds, and twice as long before each further one. It should be longer than batches take.",
    ),
    "from_files": Param(
        False, type="boolean", title="From files",
        description="Compare the files of snapshots of both clusters first, and scan only the rows that differ there. Both "
        "clusters flush the tables, and keep these files until the comparison ends.",
    ),
    "repair": Param(
        False, type="boolean", title="Repair",
        description="Ship rows again that the peer cluster lacks or has differently, once a person has approved it. Only for "
        "peers that are managed by Walferry.",
    ),
}  # fmt: skip


@dag_of_each_source(
    schedule="0 3 * * *",
    max_active_runs=1,  # a peer's newest result replaces the previous one
    description="Compare the tables of HBase replication peers at the source and at their peer clusters",
    params=PARAMS,
    minutes=360,
    doc_md=__doc__,
)
def verify_peer(conn_id: str) -> None:
    task_group(group_id=GROUP)(verification_of).expand(peer=peers())

"""Ship again to one peer all edits of an interval, from the WALs that still exist: WALs, oldWALs and the archive.

Backfill this DAG, by Airflow's form or by `airflow backfill create`, to ship past intervals: each run ships the entries whose
write time lies in its data interval. Or trigger it by hand with `from_date` and `to_date`. Several intervals may be shipped in
parallel. The DAG never runs on a schedule. Unpause it, or its runs wait.

`plan` finds the WALs. If some of the interval's WALs are gone, it names them and fails. `ship` is the Spark job, and `report`
says what was shipped. The DAG changes no queue and no position, so batches of `replicate_peer` go on meanwhile. Every task may be
cleared, retried or killed at any time: edits that were shipped already may be shipped again, as the same cells.
"""

from __future__ import annotations

from airflow.sdk import Param

from walferry.airflow.options import option
from walferry.airflow.source_dags import dag_of_each_source
from walferry.airflow.tasks.common import peer_param
from walferry.airflow.tasks.replay import FROM, RUN_TYPES, TO, replay
from walferry.airflow.timetables import BackfillIntervals

SCHEDULE = option("replay_intervals")


@dag_of_each_source(
    schedule=BackfillIntervals(SCHEDULE, timezone="UTC"),
    max_active_runs=16,
    description="Ship the edits of an interval to a peer again",
    params={
        "peer": peer_param("Id of the peer. A run needs one."),
        "from_date": FROM,
        "to_date": TO,
        "tables": Param(
            None, type=["null", "array"], items={"type": "string", "minLength": 1}, title="Tables",
            description="Tables to ship, as `table` or `namespace:table`; empty: all that the peer gets.",
        ),
        "dry_run": Param(
            False, type="boolean", title="Dry run", description="Only count files, bytes, and edits of each table; ship nothing."
        ),
        "roll": Param(
            True, type="boolean", title="Roll WALs if needed",
            description="If a WAL with entries of the interval is still open, have the RegionServers begin new ones.",
        ),
        "what_is_there": Param(
            False, type="boolean", title="Ship what is there",
            description="Ship the rest of an interval that is partly gone. Otherwise such a run fails and ships nothing.",
        ),
        "deadline": Param(
            21600, type="integer", minimum=10, maximum=604800, title="Deadline",
            description="Seconds after which the Spark job stops; a retry goes on with the first WAL that is not done.",
        ),
    },
    minutes=30,
    run_types=RUN_TYPES,
    doc_md=__doc__,
)  # fmt: skip
def replay_interval(conn_id: str) -> None:
    replay()

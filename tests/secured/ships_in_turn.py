"""A Spark job that ships a peer's first WAL group by several sources' settings, one after the other, for test_spark_cluster.py.

    spark-submit … ships_in_turn.py PEER SOURCE SOURCE …

Prints a line of JSON for each source: the process that has shipped, and the summary.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

if TYPE_CHECKING:
    from walferry.shipping.group_job import GroupJob


def shipped(job: GroupJob) -> dict[str, Any]:
    """Do a Python worker's work."""
    from walferry.shipping.ship_run import ship

    return {"pid": os.getpid(), **asdict(ship(job))}


def main(peer: str, *sources: str) -> None:
    """Ship in one application, so that its Python workers are used again."""
    context = SparkContext.getOrCreate()
    from walferry.replication.source.cluster import SourceCluster
    from walferry.shipping.ship_run import ShipRun, begin

    given = [SourceCluster.from_json(source) for source in sources]
    job, *_ = begin(ShipRun(source=given[0], peer_id=peer, run_id="in-turn", deadline=60))
    for source in given:
        (found,) = context.parallelize([replace(job, source=source)], 1).map(shipped).collect()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

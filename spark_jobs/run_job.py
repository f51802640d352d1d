"""Runs one of Walferry's jobs on Spark. The exit code is 1 if not all of it could be done.

    spark-submit --py-files walferry-….zip spark_jobs/run_job.py ship '{"source": {"quorum": …}, "peer_id": "2", …}'

The job is JSON, as its `to_json` writes it, in one argument or cut into several. The last printed line is the result as JSON.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the library is on the path only once Spark has put its archive there
    from walferry.base.jobs import Job

KINDS = ("ship", "replay", "copy", "verify", "merge")


def job_class(kind: str) -> type[Job]:
    """Return the class of jobs of this kind."""
    if kind == "ship":
        from walferry.shipping.ship_run import ShipRun

        return ShipRun
    if kind == "replay":
        from walferry.replay.replay_run import ReplayRun

        return ReplayRun
    if kind == "copy":
        from walferry.initial_snapshot.job import CopyRun

        return CopyRun
    if kind == "merge":
        from walferry.state_tables.merge_run import MergeRun

        return MergeRun
    from walferry.verification.verify_run import VerifyRun

    return VerifyRun


def main(arguments: Sequence[str]) -> int:
    """Run the job that the command line describes."""
    if len(arguments) < 2 or arguments[0] not in KINDS:
        print(f"usage: run_job.py {{{','.join(KINDS)}}} JOB", file=sys.stderr)
        return 2
    from walferry.jobs.submitted import run_job

    return run_job(job_class(arguments[0]), "".join(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

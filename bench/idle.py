"""An idle batch: the CPU-seconds of its five tasks, each of them a process of its own (bench.executor).

    PYTHONPATH=plugins python -m bench.idle      WALFERRY_BENCH_ROUNDS (5)

Each task counts from its fork to its end: the DAG's file, the library, what it asks of ZooKeeper, Master and files, and no Spark.
What Airflow itself does for a task is not in it. The tasks are forked from a process that has imported Airflow, and then,
`preloaded`, from one that has imported walferry.airflow.preload, too.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping

from bench.clusters import MANAGED_PEER, TIMEOUT_SECONDS, Bench, bench
from bench.task import Place, operate, run_task
from embedded.spark import submit

ROUNDS = int(os.environ.get("WALFERRY_BENCH_ROUNDS", "5"))
OPERATOR = "walferry.airflow.operators.ship_wals:ShipWalsOperator"
WAYS = {"": "as it is", "walferry.airflow.preload": "preloaded"}
TASKS = ("peers", "roll", "plan", "ship", "report")
NAME = 12  # characters of a way's name
HEADER = " " * NAME + "".join(f"{name:>9}" for name in (*TASKS, "batch"))


def one_batch(on: Bench, preload: str, peer: str = MANAGED_PEER) -> dict[str, float]:
    """Run a batch that finds nothing to ship, print and return the CPU-seconds of each task."""
    run_id, place = f"idle-{on.next_run()}", Place(preload=preload)
    cpu = {}
    for name in TASKS:
        if name == "ship":
            plan = {"run_id": run_id, "peer": peer}
            ran = operate(
                "replicate_peer", OPERATOR, {"peer": peer, "plan": plan}, {"deadline": 600}, on.source, run_id, place, on.log
            )
        else:
            arguments = {"peer": peer, "run": run_id}
            ran = run_task("replicate_peer", f"bench.idle_tasks:{name}", arguments, on.source, place, on.log)
        cpu[name] = ran.process_cpu
    print(line(preload, cpu), flush=True)
    return cpu


def line(preload: str, cpu: Mapping[str, float]) -> str:
    """A row of the table."""
    return f"{WAYS[preload]:{NAME}}" + "".join(f"{seconds:9.2f}" for seconds in (*cpu.values(), sum(cpu.values())))


def main() -> None:
    """Start the clusters, ship what their regions' events have left in WALs, run batches in turns, print."""
    with bench() as on:
        on.roll()
        with on.log.open("ab") as log:
            submit(on.source, MANAGED_PEER, "before", out=log).wait(TIMEOUT_SECONDS)
        print(f"{ROUNDS} idle batches after one to warm up: CPU-seconds\n{HEADER}", flush=True)
        rounds = [{preload: one_batch(on, preload) for preload in WAYS} for _ in range(1 + ROUNDS)][1:]
        print("-" * len(HEADER))
        for preload in WAYS:
            medians = {name: statistics.median(cpu[preload][name] for cpu in rounds) for name in TASKS}
            print(f"{line(preload, medians)}  (medians)")


if __name__ == "__main__":
    main()

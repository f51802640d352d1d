"""Replicates between two real HBase clusters through Airflow and Spark, and compares both sides.

`python -m demo` stays up afterwards so that you can look around. With DEMO_ONCE=1 it ends, with exit code 0 only if all runs
succeeded and both sides compare as they should.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from demo import edits, outcome
from demo.airflow_standalone import ENDED, REPO, Airflow, AirflowError
from embedded.client import ClientJvm, JavaClient, JavaClientError
from embedded.ivy import JarsMissingError
from embedded.java import JavaMissingError
from embedded.processes import ClusterError
from embedded.spark_connect import ConnectServer
from embedded.standalone import StandaloneCluster
from embedded.wire import Mutation

DAG = "replicate_peer"
PEER = "demo"
STARTED = time.monotonic()


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory(prefix="walferry-demo-", ignore_cleanup_errors=True) as folder:
            return demonstrate(Path(folder), once=os.environ.get("DEMO_ONCE") == "1")
    except (ClusterError, AirflowError, JavaClientError, JavaMissingError, JarsMissingError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nEnded.")
        return 1


def demonstrate(folder: Path, *, once: bool) -> int:
    """Run all steps, with everything that they start and write under `folder`. Returns the exit code."""
    source, slave = StandaloneCluster(folder / "source", name="source"), StandaloneCluster(folder / "slave", name="slave")
    connection, spark = source_connection(source), ConnectServer(folder / "spark")
    connections = {"AIRFLOW_CONN_HBASE_SOURCE": connection, "AIRFLOW_CONN_SPARK_CONNECT": spark.connection}
    airflow = Airflow(folder / "airflow", connections)
    try:
        step("Starting two HBase clusters, each with a ZooKeeper of its own, a Spark Connect server, and Airflow")
        for starting in (source, slave, spark, airflow):
            starting.launch()
        for cluster in (source, slave):
            cluster.await_ready()
            say(f"HBase {cluster.name}: {cluster.address.cluster_key}, files in {cluster.address.wal_root}")
        spark.await_ready()
        say(f"Spark Connect: localhost:{spark.port}; batches begin there at once, without starting Spark")

        with ClientJvm(folder / "client") as jvm:
            source_client, slave_client = jvm.client(source.address), jvm.client(slave.address)
            step("Creating the tables on both sides")
            create_tables(source_client, slave_client)

            step("Adding a managed peer: its WALs are queued, and HBase itself ships none of them")
            walferry(connection, "peers", "create", PEER, "--cluster-key", slave.address.cluster_key)

            step("Round 1: writing to the source, and nothing to the slave")
            write(source_client, edits.first_round())
            step("Waiting for Airflow")
            airflow.await_dag(DAG)
            airflow.unpause(DAG)
            say(f"Airflow: {airflow.url}. The DAG's schedule begins a run of its own now, and then every 5 minutes.")
            holds = replicate("Round 1", source_client, slave_client, airflow, known=set())

            known = {run["dag_run_id"] for run in airflow.await_runs(DAG)}
            step("Round 2: more rows, and changes and deletes of those of round 1")
            write(source_client, edits.second_round())
            holds &= replicate("Round 2", source_client, slave_client, airflow, known=known)

            step("Both sides compare as they should" if holds else "Both sides do NOT compare as they should, or a run failed")
            if not once:
                stay(airflow, connection)
        return 0 if holds else 1
    finally:
        airflow.stop()
        spark.stop()
        source.kill()
        slave.kill()


def create_tables(source: JavaClient, slave: JavaClient) -> None:
    for table, scopes in edits.TABLES.items():
        for client in (source, slave):
            client.create_table(table, scopes, edits.SPLITS.get(table, ()), versions=edits.VERSIONS)
        say(f"{table}: " + ", ".join(f"{family} {'GLOBAL' if scope else 'LOCAL'}" for family, scope in scopes.items()))


def write(source: JavaClient, mutations: Mapping[str, list[Mutation]]) -> None:
    for table, of_table in mutations.items():
        say(f"{table}: {source.write(table, of_table):,} mutations")


def replicate(title: str, source: JavaClient, slave: JavaClient, airflow: Airflow, *, known: set[str]) -> bool:
    """Have Airflow's scheduler run the DAG, and compare both sides. Returns whether everything is as it should be.

    `known` are the earlier runs. The DAG's schedule may have started a run beside ours, which then ships a part.
    """
    step(f"{title}: Airflow runs DAG {DAG}")
    say(f"triggered {airflow.trigger(DAG, {'peer': PEER})}")
    runs = [run for run in airflow.await_runs(DAG, lambda runs: tell(airflow, runs)) if run["dag_run_id"] not in known]
    for run in runs:
        say(f"{run['dag_run_id']}: {run['state']}")
    reports = [(run["run_type"], airflow.returned(DAG, run["dag_run_id"], "peer.report", 0)) for run in runs]
    say("\n".join(outcome.shipped((kind, report) for kind, report in reports if report is not None)))

    step(f"{title}: comparing both sides, row by row, with HBase's own Java client")
    same, lines = outcome.compare(source, slave, edits.TABLES)
    say("\n".join(lines))
    return same and all(run["state"] == "success" for run in runs)


def tell(airflow: Airflow, runs: list[dict[str, Any]]) -> None:
    """Print what the unfinished runs are doing."""
    for run in runs:
        if run["state"] not in ENDED:
            tasks = [task["task_id"] for task in airflow.tasks(DAG, run["dag_run_id"]) if task["state"] in ("queued", "running")]
            say(f"{run['dag_run_id']}: {run['state']}, now at {', '.join(tasks) or 'no task'}")


def walferry(connection: str, *arguments: str) -> None:
    """Run an operator's command."""
    say(f"$ walferry {' '.join(arguments)}")
    environment = {**os.environ, "AIRFLOW_CONN_HBASE_SOURCE": connection, "PYTHONPATH": str(REPO / "plugins")}
    done = subprocess.run(
        [sys.executable, "-m", "walferry", *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    say((done.stdout + done.stderr).rstrip())
    if done.returncode != 0:
        raise ClusterError(f"`walferry {' '.join(arguments)}` failed with code {done.returncode}")


def source_connection(source: StandaloneCluster) -> str:
    """Airflow's connection `hbase_source`, as AIRFLOW_CONN_HBASE_SOURCE takes it."""
    host, port = source.address.quorum.split(":")
    extra: dict[str, Any] = {"znode_parent": source.address.znode_parent, "wal_root": source.address.wal_root}
    return json.dumps({"conn_type": "generic", "host": host, "port": int(port), "extra": extra})


def stay(airflow: Airflow, connection: str) -> None:
    """Stay up until Ctrl-C."""
    step("Everything stays up: look around")
    say(f"Airflow     {airflow.url}/dags/{DAG}    user admin, password {airflow.password}")
    say(f"its source  AIRFLOW_CONN_HBASE_SOURCE='{connection}'")
    say(f"a batch     runs every 5 minutes, or when you trigger {DAG} there")
    say("Ctrl-C ends Airflow and both clusters, and removes their files.")
    signal.pause()


def step(title: str) -> None:
    print(f"\n[{time.monotonic() - STARTED:4.0f} s] {title}", flush=True)


def say(text: str) -> None:
    print("\n".join(line if line.startswith("  ") or not line else f"  {line}" for line in text.split("\n")), flush=True)


if __name__ == "__main__":
    sys.exit(main())

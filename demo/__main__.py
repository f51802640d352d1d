"""Replicates between two real HBase clusters through Airflow and Spark, and compares both sides.

With SECURE=1 both clusters are secured: see demo/secured.py. With LAKE=1 edits go into a lake, too: see demo/lake.py.

`python -m demo` stays up afterwards so that you can look around. With DEMO_ONCE=1 it ends, with exit code 0 only if all runs
succeeded and both sides compare as they should.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from demo import commands, edits, lake, outcome
from demo.airflow_standalone import ENDED, REPORT_EVERY_SECONDS, Airflow
from demo.control import Control
from demo.faults import Faults
from demo.secured import site_asked_for
from demo.site import Site
from demo.state import REPO, State
from embedded.client import ClientJvm, JavaClient, JavaClientError
from embedded.ivy import JarsMissingError
from embedded.java import JavaMissingError
from embedded.processes import ClusterError
from embedded.spark_connect import ConnectServer
from embedded.wire import Mutation
from walferry.base.periodic import every

DAG, WATCH, COPY_DAG = "replicate_peer", "watch_replication", "initial_snapshot"
PEER = "demo"
PAGE = "plugin/walferry/walferry/replication"  # below Airflow's URL
LOGS = REPO / ".cache" / "demo-logs"  # of the last demo that has failed
STARTED = time.monotonic()
MOST_SLOWNESS = 5.0
QUIET_START_SECONDS = 30.0  # what the clusters and Spark take on two cores that do nothing else


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory(prefix="walferry-demo-", ignore_cleanup_errors=True) as folder:
            try:
                return demonstrate(Path(folder), once=once())
            except (ClusterError, JavaClientError) as error:
                problem = error.problem if isinstance(error, ClusterError) else str(error).partition("\n")[0]
                print(f"\ndemo: {problem}. {keep_logs(Path(folder))}", file=sys.stderr)
                return 1
    except (JavaMissingError, JarsMissingError) as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nEnded.")
        return 1 if once() else 0  # whoever lets it end by itself wants to know whether both sides compare


def once() -> bool:
    """Whether the demo ends by itself."""
    return os.environ.get("DEMO_ONCE") == "1"


def demonstrate(folder: Path, *, once: bool) -> int:
    """Run all steps, with everything that they start and write under `folder`. Returns the exit code."""
    site = site_asked_for(folder)
    os.environ.update(site.environment)  # of Airflow, Spark and the command too
    if lake.asked_for():
        os.environ.update(lake.settings(folder / "lake"))
    spark = ConnectServer(folder / "spark")
    airflow = Airflow(
        folder / "airflow", {"AIRFLOW_CONN_HBASE_SOURCE": site.connection, "AIRFLOW_CONN_SPARK_CONNECT": spark.connection}
    )
    try:
        step("Starting two HBase clusters, each with a ZooKeeper of its own, a Spark Connect server, and Airflow")
        with waiting(site.begins_with):
            site.launch()
        spark.launch()
        airflow.launch()
        for cluster in (site.source, site.peer_cluster):
            with waiting(f"HBase {cluster.name}"):
                cluster.await_ready()
            say(f"HBase {cluster.name}: {cluster.address.cluster_key}, files in {cluster.address.wal_root}")
        for line in site.protection:
            say(line)
        with waiting("Spark Connect"):
            spark.await_ready()
        say(f"Spark Connect: localhost:{spark.port}; batches begin there at once, without starting Spark")
        airflow.slowness = min(max(1.0, (time.monotonic() - STARTED) / QUIET_START_SECONDS), MOST_SLOWNESS)

        with ClientJvm(folder / "client", options=site.jvm_options) as jvm:
            source, peer_cluster = jvm.client(site.source.address), jvm.client(site.peer_cluster.address)
            holds = run_rounds(site, airflow, source, peer_cluster)
            step("Both sides compare as they should" if holds else "Both sides do NOT compare as they should, or a run failed")
            if not once:
                stay(site, airflow, source, peer_cluster)
        return 0 if holds else 1
    finally:
        airflow.stop()
        spark.stop()
        site.kill()


def run_rounds(site: Site, airflow: Airflow, source: JavaClient, peer_cluster: JavaClient) -> bool:
    """Write, replicate and compare, twice. Returns whether everything is as it should be."""
    step("Creating the tables on both sides")
    create_tables(source, peer_cluster)

    step("Adding a managed peer: its WALs are queued, and HBase itself ships none of them")
    create = ["peers", "create", PEER, "--cluster-key", site.peer_cluster.address.cluster_key]
    if site.peer_conn_id:
        create += ["--peer-conn-id", site.peer_conn_id]
    say(f"$ walferry {' '.join(create)}")
    say(commands.walferry(site.connection, *create).rstrip())

    step("Checking all that batches need, also with a small job on Spark Connect")
    check = ["check", PEER, "--connect-conn-id", "spark_connect"]
    say(f"$ walferry {' '.join(check)}")
    with waiting("the check"):
        found = commands.walferry(site.connection, *check, may_end_with=(0, 3), of_airflow=airflow.environment)
    say("\n".join(f"  {line}" for line in found.splitlines()))

    step("Round 1: writing to the source, and nothing to the peer cluster")
    write(source, edits.first_round())
    step("Waiting for Airflow")
    with waiting("Airflow"):
        airflow.await_dag(DAG)
    airflow.unpause(DAG)
    say(f"Airflow: {airflow.url}. DAG {DAG} runs by itself from now on, whenever RegionServers have written something.")
    holds = replicate("Round 1", source, peer_cluster, airflow, known=set())

    known = {run["dag_run_id"] for run in airflow.await_runs(DAG)}
    step("Round 2: more rows, and changes and deletes of round 1's rows")
    write(source, edits.second_round())
    holds = replicate("Round 2", source, peer_cluster, airflow, known=known) and holds
    return feed_lake(site, airflow, source) and holds if lake.asked_for() else holds


def feed_lake(site: Site, airflow: Airflow, source: JavaClient) -> bool:
    """Copy what the tables have into a lake, write a third round, ship it there, and query the lake.

    The command then makes tables of state of the changes, and compares them with the source. Returns whether each cell is there
    once.
    """
    step("A second peer, whose edits go into a lake: tables of changes in Apache Iceberg")
    create = ["peers", "create", lake.PEER, "--lake", lake.CATALOG]
    say(f"$ walferry {' '.join(create)}")
    say(commands.walferry(site.connection, *create).rstrip())
    airflow.unpause(COPY_DAG)
    run_id = airflow.trigger(COPY_DAG, {"peer": lake.PEER})
    say(f"triggered {COPY_DAG}, which copies what the tables have already, from snapshots' files")
    with waiting(f"the run of {COPY_DAG}"):
        run = airflow.await_run(COPY_DAG, run_id)
    report = airflow.returned(COPY_DAG, run_id, "report") or {}
    say(f"{run_id}: {run['state']}; {report.get('cells', 0):,} cells of {report.get('regions', 0):,} regions are copied")
    if run["state"] != "success":
        return False
    write(source, edits.second_round())
    say(f"$ walferry ship {lake.PEER}")
    for said in lake.ship(site.connection):
        say(said)
    holds, lines = lake.query(lake.settings(site.folder / "lake"), edits.TABLES)
    say("\n".join(lines))
    for command in (["merge", lake.PEER], ["verify", lake.PEER, "--versions", str(edits.VERSIONS)]):
        say(f"$ walferry {' '.join(command)}")
        say(commands.walferry(site.connection, *command).rstrip())
    return holds


def create_tables(source: JavaClient, peer_cluster: JavaClient) -> None:
    for table, scopes in edits.TABLES.items():
        for client in (source, peer_cluster):
            client.create_table(table, scopes, edits.SPLITS.get(table, ()), versions=edits.VERSIONS)
        say(f"{table}: " + ", ".join(f"{family} {'GLOBAL' if scope else 'LOCAL'}" for family, scope in scopes.items()))


def write(source: JavaClient, mutations: Mapping[str, list[Mutation]]) -> None:
    for table, of_table in mutations.items():
        say(f"{table}: {source.write(table, of_table):,} mutations")


def replicate(title: str, source: JavaClient, peer_cluster: JavaClient, airflow: Airflow, *, known: set[str]) -> bool:
    """Have Airflow's scheduler run the DAG, and compare both sides. Returns whether everything is as it should be.

    `known` are the earlier runs. The first one is the schedule's, which begins as the DAG is unpaused. Later ones we begin; the
    asset's watcher may begin a run beside ours, which then ships a part.
    """
    step(f"{title}: Airflow runs DAG {DAG}")
    if known:
        say(f"triggered {airflow.trigger(DAG, {'peer': PEER})}")
    ended = airflow.await_runs(DAG, lambda runs: tell(airflow, runs), least=len(known) + 1)
    runs = [run for run in ended if run["dag_run_id"] not in known]
    for run in runs:
        say(f"{run['dag_run_id']}: {run['state']}")
    reports = [(run["run_type"], airflow.returned(DAG, run["dag_run_id"], "peer.report", 0)) for run in runs]
    say("\n".join(outcome.shipped((kind, report) for kind, report in reports if report is not None)))

    step(f"{title}: comparing both sides, row by row, with HBase's own Java client")
    same, lines = outcome.compare(source, peer_cluster, edits.TABLES)
    say("\n".join(lines))
    return same and all(run["state"] == "success" for run in runs)


def tell(airflow: Airflow, runs: list[dict[str, Any]]) -> None:
    """Print what the unfinished runs are doing."""
    if not runs:
        say("no run has begun yet")
    for run in runs:
        if run["state"] not in ENDED:
            tasks = [task["task_id"] for task in airflow.tasks(DAG, run["dag_run_id"]) if task["state"] in ("queued", "running")]
            say(f"{run['dag_run_id']}: {run['state']}, now at {', '.join(tasks) or 'no task'}")


def stay(site: Site, airflow: Airflow, source: JavaClient, peer_cluster: JavaClient) -> None:
    """Stay up until Ctrl-C, and let scripts break things meanwhile."""
    page = f"{airflow.url}/{PAGE}"
    control = Control(site.folder / "control", Faults(site, source, peer_cluster, PEER, page).actions())
    control.start()
    airflow.await_dag(WATCH)
    airflow.unpause(WATCH)
    state = State(
        pid=os.getpid(),
        socket=str(control.path),
        airflow=airflow.url,
        page=page,
        peer=PEER,
        processes=site.processes(),
        environment=commands.environment(
            site.folder / "bin",
            {**airflow.environment, **site.environment, **(lake.settings(site.folder / "lake") if lake.asked_for() else {})},
        ),
    )
    state.write()
    try:
        step("Everything stays up: look around")
        say(f"The replication page  {page}")
        say(f"Airflow               {airflow.url}/dags/{DAG}    user admin, password {airflow.password}")
        say(f"A batch               runs when there is something to ship, or when you trigger {DAG} there")
        say(f"In another terminal   {commands.shell()}")
        say("begins a shell in which these work; docs/demo.md says what to look at:")
        say("  walferry status                        the command, on these clusters; `airflow` is Airflow's")
        say("  python -m demo.kill_server             kills a RegionServer; also stop_peer_cluster, break_wal, spoil_position,")
        say("                                         fall_behind, drop_table, forget_peer; --undo mends it again")
        say("Ctrl-C ends Airflow and both clusters, and removes their files.")
        open_page(page)
        signal.pause()
    finally:
        state.remove()


def open_page(page: str) -> None:
    """Open the page in a browser, if a person with a desktop has started the demo."""
    if sys.stdout.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        webbrowser.open(page)


def keep_logs(folder: Path) -> str:
    """Copy the logs of a demo that has failed to where they stay. Returns what to do."""
    shutil.rmtree(LOGS, ignore_errors=True)
    for log in folder.rglob("*.log"):
        copy = LOGS / log.relative_to(folder)
        with suppress(OSError):  # such as a full disk, which may be why it has failed
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(log, copy)
    return f"Try again when the machine has less to do, with 4 GB of free memory; the logs are in {os.path.relpath(LOGS)}"


@contextmanager
def waiting(for_what: str) -> Iterator[None]:
    """Say every few seconds what is waited for, so that a slow start is not a silent one."""
    begun = time.monotonic()

    def report() -> None:
        say(f"waiting for {for_what}, {time.monotonic() - begun:.0f} s so far")

    with every(REPORT_EVERY_SECONDS, report):
        yield


def step(title: str) -> None:
    print(f"\n[{time.monotonic() - STARTED:4.0f} s] {title}", flush=True)


def say(text: str) -> None:
    print("\n".join(line if line.startswith("  ") or not line else f"  {line}" for line in text.split("\n")), flush=True)


if __name__ == "__main__":
    sys.exit(main())

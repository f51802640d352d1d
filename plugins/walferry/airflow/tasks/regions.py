"""The tasks of the DAGs for regions of HBase 1: report → act → check, and preview → approve → start → report → check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param, get_current_context

from walferry.airflow.forms.run_checks import check_run
from walferry.airflow.literal import task
from walferry.airflow.operators.approval import PersonDecidesOperator, digest_of, request, what_was_approved
from walferry.airflow.tasks.common import identity_of, source
from walferry.base.findings import Finding
from walferry.base.texts import one_line
from walferry.runs.failures import Failures, say
from walferry.runs.input import InputError
from walferry.runs.reports.batch import table

if TYPE_CHECKING:
    from walferry.master.snapshot import ClusterSnapshot
    from walferry.master.survey import RegionSurvey, SurveyRow
    from walferry.master.work import WorkTerms

NOTHING = "Nothing is to be done."
CHANGED = "the connection leads to another cluster than the one that was approved"
IN_LOG = "see the log of the task before this one"
ROLE_PARAMS = {  # parameters of a run that acts as the cluster's master
    "limit_minutes": Param(
        10, type="number", minimum=0, maximum=10_000, title="Minutes in one state",
        description="How long a live RegionServer may take to open or close a region before the region counts as stuck.",
    ),
    "wait_minutes": Param(
        30, type="number", minimum=0, maximum=600, title="Minutes to wait",
        description="How long a run waits for regions to come to their end, as the cluster's master. Then it fails.",
    ),
    "host": Param(
        None, type=["null", "string"], maxLength=253, title="Host",
        description="The name under which RegionServers reach this run while it is their master; empty: the worker's full name.",
    ),
    "listen": Param(
        None, type=["null", "string"], maxLength=253, title="Listen on",
        description="The worker's address to listen on; empty: that of the host.",
    ),
    "port": Param(
        0, type="integer", minimum=0, maximum=65535, title="Port",
        description="The port under which RegionServers reach this run; 0: any free one.",
    ),
}  # fmt: skip
MAX_ROWS = 200
MAX_SERVERS = 100
MAX_TEXT_CHARS = 500
_HEAD = ("region", "table", "state", "server", "next", "what and why", "seconds")


class RegionsWarning(Failures):
    """Regions need an operator; each line names a region and says what to do."""


@task
def report() -> dict[str, Any]:
    """Report which regions are in transition or not served, and what would be done, as text in the log and as XCom."""
    from walferry.master import requests, snapshot, work
    from walferry.replication.source.session import open_session

    context = check_run()
    with open_session(source()) as session:
        looked = snapshot.look_and_decide(work.cluster_of(session), 60 * context["params"]["limit_minutes"])
    request = requests.unstick(looked)
    return _reported(looked, [NOTHING] if request.idle else request.lines)


@task
def act(before: dict[str, Any]) -> dict[str, Any]:
    """Bring regions to the end of their transitions: as the cluster's master, or next to an HMaster as far as possible there.

    In a dry run, or if there is nothing to do, the role is not taken. Returns the report of the state afterwards.
    """
    from walferry.master import requests, snapshot, work
    from walferry.replication.source.session import open_session

    if get_current_context()["params"]["dry_run"]:
        print("This is a dry run: nothing was done. Trigger a run with dry_run off to do what the report says.")
        return before
    reported: list[str] = []

    def tell(line: str) -> None:
        reported.append(line)
        print(line)

    with open_session(source()) as session:
        looked = snapshot.look_and_decide(work.cluster_of(session), terms().limit_seconds)
        if requests.unstick(looked).idle:
            return _reported(looked, [NOTHING])
        carry_out = work.carry_out if looked.hmaster is None else work.unstick_beside
        return _reported(carry_out(session, requests.unstick, terms(), tell), reported)


@task
def preview() -> dict[str, Any]:
    """Say what an emergency start would find and do, and return it as what a person is asked."""
    from walferry.master import emergency, role, snapshot, work
    from walferry.replication.source.session import open_session

    context, cluster = check_run(), source()
    with open_session(cluster) as session:
        role.check_no_master(session.zk, session.nodes)
        looked = snapshot.look_and_decide(work.cluster_of(session), terms().limit_seconds)
    lines = emergency.preview(looked, context["params"]["min_servers"])
    at = f"{cluster.quorum}{cluster.znode_parent}"
    return request(f"Start the cluster of {at} without its HMaster?", lines, [identity_of(cluster), digest_of(lines)])


def approve_start(asks: Any) -> Any:
    """Wire the task that asks a person before a cluster is started. Returns the decision."""
    return PersonDecidesOperator(task_id="approve", asks=asks).output


@task
def start(decision: Any) -> None:
    """Start a cluster without its HMaster, if a person has approved that."""
    from walferry.master.emergency import start_cluster
    from walferry.replication.source.session import open_session

    cluster = source()
    shown, refusal = what_was_approved(decision)
    if shown[:1] != [identity_of(cluster)]:
        raise InputError(f"the cluster is not started: {refusal or CHANGED}. Nothing was done")
    with open_session(cluster) as session:
        start_cluster(session, terms(), get_current_context()["params"]["min_servers"], print)
    print(
        "The cluster is started, and the role has ended, so no master is active. Next, start an HMaster: it finds the regions "
        "open and takes over. Until then no master handles the death of a RegionServer"
    )


@task
def check(after: dict[str, Any]) -> None:
    """Fail if regions need an operator, so that they show in the run, and Airflow's callbacks can report them."""
    if after["findings"]:
        raise RegionsWarning([Finding(**each).line for each in after["findings"]], IN_LOG)
    print("No region is stuck.")


def terms() -> WorkTerms:
    """Return how this run takes the master's role, from the run's parameters."""
    from walferry.master.work import WAIT_SECONDS, WorkTerms

    context = get_current_context()
    params, ti = context["params"], context["ti"]
    name = f"{ti.dag_id} {ti.run_id} {ti.task_id}"
    limit, wait = 60 * params["limit_minutes"], 60 * params.get("wait_minutes", WAIT_SECONDS / 60)
    return WorkTerms(name, name, params["host"] or None, params["listen"] or None, params["port"], limit, wait)


def _reported(looked: ClusterSnapshot, lines: Sequence[str]) -> dict[str, Any]:
    """Report the state of the regions, and what was done or would be done."""
    from walferry.master.survey import survey

    found = RegionsReport(survey(looked), lines)
    say(found.as_text())
    return found.to_xcom()


@dataclass(frozen=True)
class RegionsReport:
    """A survey of regions, and what was done or would be done."""

    survey: RegionSurvey
    lines: Sequence[str] = ()

    def as_text(self) -> str:
        """Return the report for the log."""
        found = self.survey
        lines = found.summary()
        lines += [f"WARNING {finding.line}" for finding in found.findings[:MAX_ROWS]]
        lines += [f"The WALs of {server}, which is dead, are not split." for server in found.recovering[:MAX_SERVERS]]
        if found.rows:
            shown = [_cells(row) for row in found.rows[:MAX_ROWS]]
            lines += ["", *table([_HEAD, *shown, ("",) * len(_HEAD)], texts=6)[:-2]]
        if len(found.rows) > MAX_ROWS:
            lines.append(f"({len(found.rows) - MAX_ROWS:,} more regions)")
        return "\n".join([*lines, *_lines(self.lines)])

    def to_xcom(self) -> dict[str, Any]:
        """Return the report for Airflow's database."""
        found, findings = self.survey, self.survey.findings
        return {
            "ok": not findings,
            "findings": [finding.to_json() for finding in findings[:MAX_ROWS]],
            "master": found.master,
            "known": found.known,
            "open": found.open,
            "closed": found.closed,
            "live": list(found.live[:MAX_SERVERS]),
            "recovering": list(found.recovering[:MAX_SERVERS]),
            "regions": [_as_dict(row) for row in found.rows[:MAX_ROWS]],
            "regions_left_out": max(0, len(found.rows) - MAX_ROWS),
            "lines": _lines(self.lines),
        }


def _as_dict(row: SurveyRow) -> dict[str, Any]:
    return {
        "region": row.region, "table": _cut(row.table), "state": row.state, "seconds": row.seconds, "server": row.server,
        "next": row.next, "what": _cut(row.what), "why": _cut(row.why), "stuck": row.stuck,
    }  # fmt: skip


def _cells(row: SurveyRow) -> tuple[str, ...]:
    seconds = "-" if row.seconds is None else f"{row.seconds:,.0f}"
    return (row.region, _cut(row.table), row.state, row.server, row.next, _cut(f"{row.what} ({row.why})"), seconds)


def _lines(lines: Sequence[str]) -> list[str]:
    more = [f"({len(lines) - MAX_ROWS:,} more lines)"] if len(lines) > MAX_ROWS else []
    return [*map(_cut, lines[:MAX_ROWS]), *more]


def _cut(text: str) -> str:
    return one_line(text, MAX_TEXT_CHARS)

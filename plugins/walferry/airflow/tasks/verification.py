"""The tasks of a verification: peers → for each peer compare → approve → repair, and in parallel clocks → report.

Without the run's parameter `repair`, nobody is asked, and nothing is repaired. A repair compares the approved tables once more,
and ships the rows that differ then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context, TriggerRule, get_current_context
from airflow.sdk.exceptions import AirflowSkipException

from walferry.airflow.endings import ends_plainly, leave_note
from walferry.airflow.forms.run_checks import check_conf
from walferry.airflow.literal import label, task
from walferry.airflow.operators.approval import MAX_LINES, PersonDecidesOperator, digest_of, request, what_was_approved
from walferry.airflow.operators.spark_job import SparkJobOperator
from walferry.airflow.states import state_of
from walferry.airflow.tasks.common import identity_of, source, task_of_peer
from walferry.base.amounts import count
from walferry.runs.failures import say
from walferry.runs.input import InputError, moment
from walferry.runs.reports.verification import Repair, VerificationFailed, VerificationReport, rows_to_repair
from walferry.runs.values import run_of

if TYPE_CHECKING:
    from walferry.replication.source.cluster import SourceCluster
    from walferry.replication.source.session import Session
    from walferry.verification.job import Options

PEER_NAME = label("task.op_kwargs['peer']")
GROUP = "peer"


@task
def peers() -> list[str]:
    """Return the peers of this run: the chosen one, whether it is managed or not, or all managed peers with a peer cluster.

    It checks the parameters, and deletes the results of peers that are gone.
    """
    from walferry.replication.source.peers import read_peer, read_peers
    from walferry.replication.source.session import open_session
    from walferry.verification.results import delete_of_gone_peers

    context = get_current_context()
    run, params = context["dag_run"], context["params"]
    check_conf(run.dag_id, run.conf or {}, context["dag"].params.keys(), params)
    options_of(params)
    with open_session(source(), look_only=True) as session:
        delete_of_gone_peers(session)
        if params["peer"]:
            return [read_peer(session, params["peer"]).id]
        return sorted(peer.id for peer in read_peers(session).peers if peer.managed and peer.in_hbase)


@task_of_peer(map_index_template=PEER_NAME)
def clocks(peer: str) -> dict[str, Any]:
    """Return how far the clocks of the RegionServers on both sides are ahead of this machine's clock."""
    from walferry.base.zk.client import connected
    from walferry.hbase.layout import ZNodes
    from walferry.replication.peers.reading import peer_cluster_of
    from walferry.replication.source.peers import read_peer
    from walferry.replication.source.session import open_session
    from walferry.verification.clocks import skews

    cluster = source()
    with open_session(cluster, look_only=True) as session:
        found = read_peer(session, peer)
        ours = skews(session.zk, session.nodes, cluster.login)
        if not found.in_hbase:
            return {"source": list(map(asdict, ours)), "peer_cluster": []}
        key, login = found.peer_cluster, cluster.login_to(found)
        with connected(key.connect_string, whose=peer_cluster_of(peer, key), login=login) as zk:
            theirs = skews(zk, ZNodes(key.znode_parent), login)
    return {"source": list(map(asdict, ours)), "peer_cluster": list(map(asdict, theirs))}


# Runs also if the job failed, and reports what the job has found until then.
@task_of_peer(map_index_template=PEER_NAME, trigger_rule=TriggerRule.ALL_DONE)
def report(peer: str) -> None:
    """Report how the two sides compare, as text in the log and as XCom. Fails if they differ."""
    from walferry.replication.source.session import open_session
    from walferry.verification.results import read_result

    ti: Any = get_current_context()["ti"]
    state = state_of(ti, f"{GROUP}.compare", ti.map_index)
    measured = ti.xcom_pull(task_ids=f"{GROUP}.clocks", map_indexes=ti.map_index) or {}
    _, refusal = what_was_approved(ti.xcom_pull(task_ids=f"{GROUP}.approve", map_indexes=ti.map_index))
    repair = Repair(state_of(ti, f"{GROUP}.repair", ti.map_index), refusal)
    with open_session(source(), look_only=True) as session:
        outcomes = read_result(session, peer, run_of(ti))  # None if the job has left no result
    found = VerificationReport(peer, outcomes, state, measured, repair)
    say(found.as_text())
    leave_note(get_current_context(), found.note)
    ti.xcom_push("return_value", found.to_xcom())
    if found.failures:
        raise VerificationFailed(found.failures)


def verification_of(peer: str) -> None:
    """Wire one peer's branch."""
    shown = label("task.peer")
    compare = VerifyPeerOperator(task_id="compare", peer=peer, retries=1, map_index_template=shown)
    # Also if some tables could not be compared.
    approve = PersonDecidesOperator(task_id="approve", asks=compare.output, trigger_rule=TriggerRule.ALL_DONE)
    repair = VerifyPeerOperator(
        task_id="repair", peer=peer, decision=approve.output, repairs=True, retries=1, map_index_template=shown
    )
    compare >> approve >> repair
    [repair, clocks(peer=peer)] >> report(peer=peer)


class VerifyPeerOperator(SparkJobOperator):
    """Compares the tables of `peer` at the source and at its peer cluster, with the run's parameters.

    If the run is to repair, its result is what PersonDecidesOperator asks. With `repairs`, it compares the tables of the
    `decision` again and ships the rows that differ then, or skips itself if nothing was approved. A killed or failed job may be
    submitted again at any time.

    :param peer: the id of the peer
    :param decision: an XCom of PersonDecidesOperator
    :param repairs: whether it repairs what was approved
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "peer", "decision")

    def __init__(self, *, peer: str, decision: Any = None, repairs: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.peer = peer
        self.decision = decision
        self.repairs = repairs

    @ends_plainly
    def execute(self, context: Context) -> None:
        """Submit the job and wait for it."""
        from walferry.verification.verify_run import VerifyRun

        params: Mapping[str, Any] = context["params"]
        options = options_of(params)
        approved, refusal = what_was_approved(self.decision)
        if self.repairs and not approved:
            raise AirflowSkipException(f"peer {self.peer}: nothing is repaired{refusal and ': '}{refusal}")
        run = VerifyRun(
            source=self.source_for(params["source_conn_id"], self.peer), peer_id=self.peer, run_id=run_of(context["ti"]),
            tables=tuple(params["tables"] or ()), options=options,
        )  # fmt: skip
        self.writes = self.repairs
        if self.repairs:
            run = replace(run, tables=_tables_of(approved, run.source, self.peer), after_comparison=True)
        self.tables_of_job = run.tables
        if self.repairs:
            self.run_job(context, run)
        elif options.repair:
            run.check_repair()
            try:
                self.run_job(context, replace(run, options=replace(options, repair=False)))
            finally:
                context["ti"].xcom_push("return_value", _asks(run.source, run.peer_id, run.run_id))
        else:
            self.run_job(context, run)


def _tables_of(approved: Sequence[str], source: SourceCluster, peer: str) -> tuple[str, ...]:
    """Return the tables that a person has approved. Raises InputError if that was for another cluster."""
    from walferry.replication.source.session import open_session

    with open_session(source, look_only=True) as session:
        what = _identity(session, peer)
    if [*approved[: len(what)]] != what:
        raise InputError(
            f"peer {peer} is not repaired: it, or its source, leads to another cluster than was approved. Nothing was done. "
            "Trigger another run"
        )
    return tuple(approved[len(what) + 1 :])


def _asks(source: SourceCluster, peer: str, run_id: str) -> dict[str, Any]:
    """Return what a person is asked before the rows that differ are shipped again; nothing if there are none."""
    from walferry.replication.source.session import open_session
    from walferry.verification.results import read_result

    with open_session(source, look_only=True) as session:
        outcomes, what = read_result(session, peer, run_id) or (), _identity(session, peer)
    tables, lines = rows_to_repair(outcomes, MAX_LINES)
    if not tables:
        return {}
    lines = [f"peer cluster: {what[-1]}", *lines]
    return request(
        f"Ship rows of {count(len(tables), 'table')} again to the cluster of peer {peer}?",
        lines,
        [*what, digest_of(lines), *tables],
    )


def _identity(session: Session, peer: str) -> list[str]:
    """Return for which source, peer and peer cluster a yes counts."""
    from walferry.replication.source.peers import read_peer

    return [identity_of(session.source), peer, read_peer(session, peer).cluster_key]


def options_of(params: Mapping[str, Any]) -> Options:
    """Return the run's parameters as options. Raises InputError."""
    from walferry.hbase.binary_text import from_binary_text
    from walferry.verification.job import Options

    try:
        options = Options(
            start_row=from_binary_text(params["start_row"] or ""),
            stop_row=from_binary_text(params["stop_row"] or ""),
            start_time=_milliseconds("start_time", params),
            end_time=_milliseconds("end_time", params),
            versions=int(params["versions"]),
            deleted=bool(params["deleted"]),
            recompares=int(params["recompares"]),
            recompare_seconds=float(params["recompare_seconds"]),
            repair=bool(params["repair"]),
            from_files=bool(params["from_files"]),
        )
    except ValueError as error:
        raise InputError(f"a row is written as HBase's shell shows it, e.g. abc\\x00: {error}") from error
    if options.stop_row and options.start_row >= options.stop_row:
        raise InputError("start_row does not come before stop_row, so there is no row to compare")
    if options.end_time is not None and (options.start_time or 0) >= options.end_time:
        raise InputError("start_time does not come before end_time, so there is no cell to compare")
    return options


def _milliseconds(name: str, params: Mapping[str, Any]) -> int | None:
    return int(moment(name, params[name]).timestamp() * 1000) if params[name] else None

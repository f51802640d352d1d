"""The tasks that give up the rest of a broken WAL: look → approve → permit → ship → check. See shipping/giving_up.py."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TriggerRule, get_current_context

from walferry.airflow.endings import leave_note
from walferry.airflow.forms.run_checks import check_run, peer_of
from walferry.airflow.literal import task
from walferry.airflow.operators.approval import PersonDecidesOperator, request, what_was_approved
from walferry.airflow.operators.run_batch import RunBatchOperator
from walferry.airflow.states import state_of
from walferry.airflow.tasks.common import identity_of, source
from walferry.base.amounts import count
from walferry.runs.failures import Failures
from walferry.runs.input import InputError

if TYPE_CHECKING:
    from walferry.replication.source.cluster import SourceCluster
    from walferry.shipping.giving_up import Damage


CHECK_RETRIES = 120  # while other runs ship the peer
CHECK_DELAY = timedelta(seconds=30)


class NotGivenUp(Failures):
    """The WAL is still queued."""

    retry_helps = True


@task
def look() -> dict[str, Any]:
    """Read the WAL to its damage, and return what a person is asked."""
    from walferry.replication.source.session import open_session
    from walferry.shipping import giving_up
    from walferry.shipping.ship_run import check_quarantine

    peer, wal = _peer_and_wal()
    cluster = source()
    check_quarantine(cluster)
    with open_session(cluster, look_only=True) as session:
        found = giving_up.look(session, peer, wal)
    lost = f"{found.ends - found.begins:,} bytes from byte {found.begins:,} on are given up: peer {peer} does not get their edits"
    if found.of_archive:
        lost = f"all of its edits are shipped to peer {peer} first; only its copy in the archive is given up"
    lines = [
        f"{found.url}: {found.ends:,} bytes, queued for peer {peer} under {found.place}",
        found.error,
        lost,
        f"a copy of the file, and a note of what was given up, go to {cluster.quarantine}",
        f"{count(found.behind, 'WAL')} of its group {'waits' if found.behind == 1 else 'wait'} behind it",
    ]
    return request(f"Give up the rest of a broken WAL, and let peer {peer} go on behind it?", lines, _shown(cluster, peer, found))


@task
def permit(decision: Any) -> None:
    """Let batches give up what was shown, if a person has approved that."""
    from walferry.replication.source.session import open_session
    from walferry.shipping import giving_up

    peer, wal = _peer_and_wal()
    shown, refusal = what_was_approved(decision)
    if refusal or not shown:
        raise InputError(f"nothing of WAL {wal} is given up: {refusal}. Peer {peer} waits before it")
    cluster = source()
    with open_session(cluster) as session:
        found = giving_up.look(session, peer, wal)
        if shown != _shown(cluster, peer, found):
            raise InputError(f"nothing of WAL {wal} is given up: its damage is another one now. Trigger another run")
        giving_up.permit(session, peer, found, f"{decision['by']} in run {get_current_context()['ti'].run_id}")


# Runs also if the batch failed, perhaps for another WAL's sake; another batch may ship this one.
@task(trigger_rule=TriggerRule.ALL_DONE, retries=CHECK_RETRIES, retry_delay=CHECK_DELAY)
def check() -> None:
    """Wait until the WAL has left the peer's queue."""
    from walferry.replication.queues.errors import WalGone
    from walferry.replication.source.session import open_session
    from walferry.shipping.candidates import find_candidate

    if state_of(get_current_context()["ti"], "permit") != "success":
        raise InputError("nothing is given up: see the logs of the tasks before this one")  # a skipped end would be a success
    peer, wal = _peer_and_wal()
    try:
        with open_session(source(), look_only=True) as session:
            find_candidate(session, peer, wal)
    except WalGone:
        told = f"Peer {peer} goes on behind WAL {wal}. If edits were given up, verify_peer finds the rows that it lacks now"
        print(told)
        leave_note(get_current_context(), told)
    else:
        raise NotGivenUp([f"WAL {wal} is still queued for peer {peer}: see the report of the batch that this run has started"])


def quarantine_tasks(conn_id: str) -> None:
    """Wire the tasks of a source's DAG."""
    decision = PersonDecidesOperator(task_id="approve", asks=look()).output
    permit(decision) >> RunBatchOperator(task_id="ship", conn_id=conn_id) >> check()


def _peer_and_wal() -> tuple[str, str]:
    """Return the run's peer, and the WAL's name, of which people may give the path. Raises InputError."""
    from walferry.hbase.names import as_wal_name

    context = check_run()
    peer, text = peer_of(context), str(context["params"]["wal"] or "").strip().rpartition("/")[2]
    if as_wal_name(text) is None:
        raise InputError(
            f"the run needs the name or path of a WAL, as errors name it: give it as the parameter `wal`, not {text[:100]!r}. "
            "Nothing was done"
        )
    return peer, text


def _shown(cluster: SourceCluster, peer: str, found: Damage) -> list[str]:
    """Return what a person approves: to give up these bytes of this WAL for this peer."""
    return [identity_of(cluster), peer, found.wal, str(found.begins), str(found.ends)]

"""The tasks that give up the rest of a broken WAL: look → approve → permit → ship → check. See shipping/giving_up.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from walferry.airflow.endings import leave_note
from walferry.airflow.forms.run_checks import check_run, peer_of
from walferry.airflow.literal import task
from walferry.airflow.operators.approval import PersonDecidesOperator, request, what_was_approved
from walferry.airflow.operators.run_batch import RunBatchOperator
from walferry.airflow.tasks.common import identity_of, source
from walferry.base.amounts import count
from walferry.runs.failures import Failures
from walferry.runs.input import InputError

if TYPE_CHECKING:
    from walferry.replication.source.cluster import SourceCluster
    from walferry.shipping.giving_up import Damage


class NotGivenUp(Failures):
    """The WAL is still queued."""


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
    lines = [
        f"{found.url}: {found.ends:,} bytes, queued for peer {peer} under {found.place}",
        found.error,
        f"{found.ends - found.begins:,} bytes from byte {found.begins:,} on are given up: peer {peer} does not get their edits",
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


@task
def check() -> None:
    """Fail if the WAL is still queued for the peer."""
    from walferry.replication.queues.errors import WalGone
    from walferry.replication.source.session import open_session
    from walferry.shipping.candidates import find_candidate

    peer, wal = _peer_and_wal()
    try:
        with open_session(source(), look_only=True) as session:
            find_candidate(session, peer, wal)
    except WalGone:
        told = f"Peer {peer} goes on behind WAL {wal}. Compare its tables (verify_peer) to find the rows that it lacks now"
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

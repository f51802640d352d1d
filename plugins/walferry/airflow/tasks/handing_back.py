"""The tasks that hand a peer back to HBase: preview → approve → begin → ship → finish. See admin/handing_back.py."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context, RetryDecision, get_current_context

from walferry.airflow.endings import Ended, RetryIfItHelps, leave_note
from walferry.airflow.forms.run_checks import check_run, peer_of
from walferry.airflow.literal import task
from walferry.airflow.operators.approval import PersonDecidesOperator, digest_of, request, what_was_approved
from walferry.airflow.operators.run_batch import RunBatchOperator
from walferry.airflow.tasks.common import identity_of, source
from walferry.base.errors import WalferryError
from walferry.runs.input import InputError

if TYPE_CHECKING:
    from walferry.admin.peers import PeerAdmin

CHANGED = "the peer gets other edits now, or leads to another cluster, than when that was approved. Trigger another run"
FINISH_RETRIES = 120  # while other runs ship the peer
FINISH_DELAY = timedelta(seconds=30)
OTHER_TRIES = 3
FINISH_TIMEOUT = timedelta(hours=1)  # requests of HBase or of a killed run may take long to have no effect any more


class UntilShipped(RetryIfItHelps):
    """Tries again for an hour, as other runs ship the peer, but after an unknown error only a few times."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        """Decide about a failed try for Airflow."""
        decision = super().evaluate(exception, try_number, max_tries, context)
        if not isinstance(exception, (WalferryError, Ended)) and try_number >= OTHER_TRIES:
            return RetryDecision.fail()
        return decision


@task
def preview() -> dict[str, Any]:
    """Say what handing the peer back does, and return it as what a person is asked."""
    from walferry.admin import handing_back
    from walferry.admin.peers import peer_admin

    peer, new = _peers()
    with peer_admin(source()) as admin:
        lines = handing_back.preview(admin, peer, new)
        return request(f"Hand peer {peer} back to HBase, which then ships by peer {new}?", lines, _identity(admin, peer, new))


@task
def begin(decision: Any) -> None:
    """Add the new peer, DISABLED, if a person has approved that."""
    from walferry.admin import handing_back
    from walferry.admin.peers import peer_admin

    peer, new = _peers()
    shown, refusal = what_was_approved(decision)
    with peer_admin(source()) as admin:
        if refusal or shown != _identity(admin, peer, new):
            raise InputError(f"peer {peer} is not handed back: {refusal or CHANGED}. Nothing was done")
        handing_back.begin_hand_back(admin, peer, new)
    print(f"Peer {new} is DISABLED, and collects all edits from now on.")


@task(retries=FINISH_RETRIES, retry_delay=FINISH_DELAY, retry_policy=UntilShipped(), execution_timeout=FINISH_TIMEOUT)
def finish(decision: Any) -> None:
    """Remove the peer once nothing is queued for it alone, and have HBase ship by the new one."""
    from walferry.admin import handing_back
    from walferry.admin.peers import peer_admin

    peer, new = _peers()
    shown, refusal = what_was_approved(decision)
    cluster = source()
    if shown[:3] != [identity_of(cluster), peer, new]:
        raise InputError(f"peer {peer} is not handed back: {refusal or CHANGED}")
    with peer_admin(cluster) as admin:
        handing_back.finish_hand_back(admin, peer, new)
    told = f"Peer {peer} is removed, and {new} is ENABLED: HBase ships"
    print(told)
    leave_note(get_current_context(), told)


def hand_back_tasks(conn_id: str) -> None:
    """Wire the tasks of a source's DAG."""
    decision = PersonDecidesOperator(task_id="approve", asks=preview()).output
    begin(decision) >> RunBatchOperator(task_id="ship", conn_id=conn_id) >> finish(decision)


def _peers() -> tuple[str, str]:
    """Return the ids of our peer and of the new one, from the run's parameters. Raises InputError."""
    context = check_run()
    peer, new = peer_of(context), context["params"]["new_peer"]
    if not new:
        raise InputError("the run needs the id of a new peer: give it as the parameter `new_peer`. Nothing was done")
    return peer, new


def _identity(admin: PeerAdmin, peer_id: str, new_id: str) -> list[str]:
    """Return what a person approves: these peers of this source, and for our peer these edits and this peer cluster."""
    from walferry.admin.showing import scope

    peer = admin.managed(peer_id)
    return [identity_of(admin.session.source), peer_id, new_id, peer.cluster_key, digest_of([scope(peer)])]

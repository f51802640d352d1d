"""Ships one WAL group of one queue: read → filter → ship → advance, in as many attempts as it takes.

A group is shipped under a lease, and the lease fences every write to the group's queue. An attempt may be killed at any moment:
the next one goes on from the registered position, and ships again the edits that were acknowledged after it. If the source's
ZooKeeper stays away until the session ends, the lease ends too, and a new attempt follows within the same deadline.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, SessionExpiredError

from walferry.base.errors import WalferryError, text_of
from walferry.base.zk.client import OUTCOME_UNKNOWN, SESSION_TIMEOUT_SECONDS
from walferry.base.zk.errors import ConnectError
from walferry.base.zk.session_time import now
from walferry.engine.counters import Counters
from walferry.engine.summary import GroupSummary, Status
from walferry.hbase.files.quarantine import WAYS_OUT, is_broken
from walferry.load.copy_records import under_way
from walferry.replication.queues.errors import LeaseHeld, LeaseLost
from walferry.replication.queues.lease import acquire
from walferry.replication.source.session import Session, open_session
from walferry.shipping.attempt import QueueAttempt
from walferry.shipping.deleted import attempt_without
from walferry.shipping.group_job import GroupJob
from walferry.shipping.runs import read_group, write_group

RETRY_SECONDS = 2.0  # before a group begins again in a new session
LOOK_SECONDS = 0.5  # between two tries to take a lease that is held
# The source's ZooKeeper, or a lease that ended with our session, is the trouble: nothing is wrong with the group.
PASSING = (ConnectError, LeaseLost, SessionExpiredError, ConnectionClosedError, AuthFailedError, *OUTCOME_UNKNOWN)

T = TypeVar("T")

log = logging.getLogger(__name__)


def ship_group(job: GroupJob) -> GroupSummary:
    """Ship all closed WALs of a group, unless an initial snapshot is under way. Errors go into the summary; none is raised."""
    connected_before = False
    known: dict[str, float] = {}
    while True:
        try:
            with open_session(job.source) as session:
                connected_before = True
                return _ship_group(job, session, known)
        except PASSING as error:
            # If this machine has never reached the ensemble, it may never reach it.
            if not connected_before or time.time() + RETRY_SECONDS >= job.deadline:
                return GroupSummary(group=job.group, status=Status.FAILED, error=_text(error), passing=_may_pass(error))
            log.warning("WAL group %s of peer %s begins again where it is registered: %s", job.group, job.peer_id, _text(error))
            time.sleep(RETRY_SECONDS)
        except Exception as error:  # _ship_group handles the group's own failures; the other groups go on
            log.exception("WAL group %s of peer %s", job.group, job.peer_id)
            return GroupSummary(group=job.group, status=Status.FAILED, error=_text(error))


def _ship_group(job: GroupJob, session: Session, known: dict[str, float]) -> GroupSummary:
    """Ship the group in one session. `known` contains earlier sessions' leases, for `acquire`; this session's is added."""
    before = read_group(session, job.peer_id, job.run_id, job.group)
    counters = Counters(before or GroupSummary(group=job.group))
    lease, ended = None, False
    try:
        seconds = job.settings.call_timeout_seconds
        lease = after_killed_holder(
            lambda: acquire(session, job.peer_id, job.group, job.holder, calls_seconds=seconds, known=known), job.deadline
        )
        if (why := under_way(session, job.peer_id)) is None:
            attempt_without(job.settings, lease.right, lambda missing: QueueAttempt(job, session, lease, counters, missing).run())
        else:
            counters.end(Status.HELD, str(why))
    except LeaseHeld as error:
        counters.end(Status.HELD, str(error))
    except PASSING as error:
        ended = True  # the lease ends with the session
        if time.time() + RETRY_SECONDS < job.deadline:
            raise
        counters.end(Status.FAILED, _text(error), passing=True)
    except Exception as error:
        log.exception("WAL group %s of peer %s", job.group, job.peer_id)
        counters.end(Status.FAILED, _text(error))
    finally:
        if lease and not ended:
            lease.release()
        if lease:
            known[lease.token] = now() + lease.right.quiet_seconds
    summary = counters.summary()
    if lease or before is None:  # otherwise the lease's holder, an attempt of the same run, writes it
        write_group(session, job.peer_id, job.run_id, summary)
    return summary


def _may_pass(error: Exception) -> bool:
    """Return whether the next try may succeed. It cannot if a keytab is missing, or if the ensemble refuses the login."""
    return not isinstance(error, WalferryError) or error.retry_helps


def after_killed_holder(take: Callable[[], T], deadline: float) -> T:
    """Return the result of `take`, once no killed holder is in its way. Raises LeaseHeld if a holder stays longer than that."""
    give_up = lease_given_up(deadline)
    while True:
        try:
            return take()
        except LeaseHeld as error:
            if time.time() > give_up:
                raise
            log.info("%s", error)
            time.sleep(LOOK_SECONDS)


def lease_given_up(deadline: float) -> float:
    """Return when to give up a lease that another run holds (seconds since the epoch). A killed run's session has ended then."""
    return min(time.time() + 1.25 * SESSION_TIMEOUT_SECONDS, deadline)


def _text(error: BaseException) -> str:
    if is_broken(error):
        return f"{error}. {WAYS_OUT}"
    return text_of(error)

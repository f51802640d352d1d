"""Keeps the result of a peer's newest comparison in ZooKeeper, under Walferry's own root.

    <root>/verifications/<quoted znode parent>/<peer>      run id and outcomes as JSON

So the Spark job returns its result whatever the Spark master and the deploy mode. The next comparison replaces it. Once the peer
is gone, a later run deletes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from walferry.base.records import NotARecord, Record
from walferry.base.zk.client import children, delete_unused, read
from walferry.base.zk.records import decode, encode, put, wrong_record
from walferry.hbase.layout import quoted
from walferry.replication.source.peers import peer_ids
from walferry.replication.source.session import Session
from walferry.verification.outcome import VerificationOutcome

# A znode holds 1 MiB.
MAX_TABLES = 300
MAX_SAMPLES = 150  # over all tables
MAX_PROBLEM_CHARS = 500
MAX_DETAIL_CHARS = 500


@dataclass(frozen=True)
class _Result(Record):
    """The result that a run has kept."""

    run_id: str
    outcomes: tuple[VerificationOutcome, ...]


def write_result(session: Session, peer_id: str, run_id: str, outcomes: Sequence[VerificationOutcome]) -> None:
    """Keep the outcomes of a run, tables with differences first. Raises ConnectError."""
    ordered = sorted(outcomes, key=lambda outcome: (not outcome.problem, not outcome.bad_rows, outcome.table))
    places = MAX_SAMPLES
    kept = []
    for outcome in ordered[:MAX_TABLES]:
        samples = [replace(sample, detail=sample.detail[:MAX_DETAIL_CHARS]) for sample in outcome.samples[:places]]
        places -= len(samples)
        kept.append(replace(outcome, problem=outcome.problem[:MAX_PROBLEM_CHARS], samples=samples))
    put(session.zk, session.own.verification(peer_id), encode(_Result(run_id, tuple(kept))))


def read_result(session: Session, peer_id: str, run_id: str) -> list[VerificationOutcome] | None:
    """Return the outcomes that this run has kept; None if it has kept none. Raises ZNodeValueError, ConnectError."""
    path = session.own.verification(peer_id)
    znode = read(session.zk, path)
    if znode is None:
        return None
    try:
        found = decode(_Result, znode.value)
    except NotARecord as error:
        raise wrong_record(path, "the result of a comparison", error, "Compare the peer again") from error
    return list(found.outcomes) if found.run_id == run_id else None


def delete_of_gone_peers(session: Session) -> None:
    """Delete the results of peers that do not exist any more. Raises ConnectError."""
    folder = session.own.verification("peer").rpartition("/")[0]
    peers = peer_ids(session)
    if peers is None:
        return
    for name in set(children(session.zk, folder) or ()) - set(map(quoted, peers)):
        delete_unused(session.zk, f"{folder}/{name}")

r"""The measures of a source's replication, under HBase's names where it has them: by source, and by source and peer.

    MEASURES    every measure: its name for StatsD and OpenTelemetry, its name for Prometheus, its unit, and what it says
    measured    the values of a status
    exposition  these in Prometheus' text format, version 0.0.4, as node_exporter's textfile collector reads it

An unknown measure has no value and is never 0. `unknown` says how many measures are unknown, or which ones.

    file    = family*
    family  = "# HELP " name " " help "\n" "# TYPE " name " gauge\n" sample+
    sample  = name "{" label ("," label)* "} " value "\n"
    label   = labelname "=" '"' text '"'
    name    = [a-zA-Z_:][a-zA-Z0-9_:]*          labelname = [a-zA-Z_][a-zA-Z0-9_]*
    help    = text in which "\" is written "\\" and a line break "\n"
    text    = the same, and a quotation mark is written '\"'
    value   = a decimal number

All is UTF-8. A family stands once, with all its samples, and no two samples have the same labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.findings import StatusKind, of_peer
from walferry.observe.status.model import PeerStatus, SourceStatus
from walferry.replication.retention.survey import Fate, OldWalSurvey


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure. HBase counts time in ms; for Prometheus a value is divided by `per`, into base units."""

    name: str  # HBase's form: source.<what>
    prometheus: str
    help: str
    per: int = 1


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a measure; None: it is not known. `peer_id` is None for measures of the source."""

    measure: Measure
    value: float | None
    peer_id: str | None = None


_PEER: Final = (
    Measure("source.ageOfOldestUnshippedEdit", "walferry_age_of_oldest_unshipped_edit_seconds",
            "For how long the oldest edit that is not shipped has waited at least; 0: none waits.", 1000),
    Measure("source.replicationLag", "walferry_replication_lag_seconds",
            "For how long the oldest edit that is not shipped has waited at most; 0: none waits.", 1000),
    Measure("source.ageOfLastShippedOp", "walferry_age_of_last_shipped_op_seconds",
            "How old the last edit was when it was shipped.", 1000),
    Measure("source.timestampOfLastShippedOp", "walferry_timestamp_of_last_shipped_op_seconds",
            "When the last edit that was shipped had been written, since the epoch.", 1000),
    Measure("source.validThrough", "walferry_valid_through_timestamp_seconds",
            "The peer cluster has all edits that were written before this time, since the epoch.", 1000),
    Measure("source.lastSuccess", "walferry_last_success_timestamp_seconds",
            "When a run has last shipped all that it found, since the epoch.", 1000),
    Measure("source.sizeOfLogQueue", "walferry_log_queue_wals", "WALs in the peer's queues, those being written among them."),
    Measure("source.walsLeft", "walferry_left_wals", "WALs that can be shipped now."),
    Measure("source.bytesLeft", "walferry_left_bytes", "Bytes behind the positions of these WALs, as far as sizes are known."),
    Measure("source.walsOfUnknownSize", "walferry_unknown_size_wals", "WALs whose bytes are not among these."),
    Measure("source.sizeOfHFileRefsQueue", "walferry_hfile_refs_queue_files", "Bulk-loaded files that are not shipped."),
    Measure("source.bytesPerSecond", "walferry_shipped_bytes_per_second", "How fast WALs are shipped."),
    Measure("source.secondsLeft", "walferry_left_seconds", "Seconds until all is shipped at this pace."),
    Measure("source.maxLag", "walferry_max_lag_seconds", "The lag that the peer's configuration allows.", 1000),
    Measure("source.managed", "walferry_managed", "1: Walferry ships the peer."),
    Measure("source.paused", "walferry_paused", "1: its operator has paused it."),
    Measure("source.peerClusterUp", "walferry_peer_cluster_up", "1: the peer cluster can be reached; 0: it cannot."),
    Measure("source.failing", "walferry_failing", "1: the last runs have failed."),
    Measure("source.refused", "walferry_refused", "1: Walferry may not ship the peer, though it is managed."),
    Measure("source.stuck", "walferry_stuck", "1: there is something to ship, and nothing has advanced for long."),
)  # fmt: skip
_SOURCE: Final = (
    Measure("source.up", "walferry_source_up", "1: the source can be read; 0: it cannot, and nothing else is known of it."),
    Measure("source.snapshotAt", "walferry_snapshot_timestamp_seconds", "When these figures were read, since the epoch.", 1000),
    Measure("source.peers", "walferry_peers", "All peers, also the ones that HBase ships."),
    Measure("source.liveServers", "walferry_live_servers", "Live RegionServers."),
    Measure("source.deadServers", "walferry_dead_servers", "Dead RegionServers whose queues are not shipped yet."),
    Measure("source.orphanedQueues", "walferry_orphaned_queues", "Queues of peers that do not exist."),
    Measure("source.orphanedWals", "walferry_orphaned_wals", "WALs in these."),
    Measure("source.regionsInTransition", "walferry_regions_in_transition", "Regions in transition, of HBase 1."),
    Measure("source.problems", "walferry_problems", "Znodes and files that make no sense."),
    Measure("source.oldWals", "walferry_old_wals", "Files in oldWALs."),
    Measure("source.oldWalsBytes", "walferry_old_wals_bytes", "Their bytes."),
    Measure("source.heldOldWals", "walferry_held_old_wals", "Files in oldWALs that queues keep there."),
    Measure("source.heldOldWalsBytes", "walferry_held_old_wals_bytes", "Their bytes."),
    Measure("source.heldOldWalsGrowth", "walferry_held_old_wals_growth_bytes_per_second", "How fast these bytes grow."),
    Measure("source.diskRemaining", "walferry_disk_remaining_bytes", "Free bytes on the disks of the file system."),
    Measure("source.secondsUntilFull", "walferry_disk_full_seconds",
            "Seconds until the disk is full if these bytes grow on so; without a value if they do not grow."),
)  # fmt: skip
UNKNOWN: Final = Measure("source.unknown", "walferry_unknown", "Measures whose values are not known.")
MEASURES: Final[Mapping[str, Measure]] = {each.name: each for each in (*_SOURCE, *_PEER, UNKNOWN)}
_NOT_ALWAYS: Final = frozenset({"source.maxLag", "source.secondsUntilFull", "source.regionsInTransition", "source.lastSuccess"})


def measured(status: SourceStatus, old_wals: OldWalSurvey | None) -> list[Value]:
    """Return the values of a status, known or not. If oldWALs was not listed, it has no values, and none are missing."""
    own: dict[str, float | None] = {"source.up": status.unreachable is None, "source.snapshotAt": status.at_ms}
    if status.unreachable is None:
        own |= _of_source(status)
        own |= _of_old_wals(old_wals) if old_wals is not None else {}
    values = [Value(MEASURES[name], value) for name, value in own.items() if value is not None or name not in _NOT_ALWAYS]
    for peer in status.peers or ():
        found = _of_peer(peer).items()
        values += [Value(MEASURES[name], each, peer.id) for name, each in found if each is not None or name not in _NOT_ALWAYS]
    return values


def unknown(values: Sequence[Value]) -> dict[str | None, list[Measure]]:
    """Return the unknown measures, by peer and for the source (None); empty lists if all are known."""
    found: dict[str | None, list[Measure]] = {each.peer_id: [] for each in values}
    for each in values:
        if each.value is None:
            found[each.peer_id].append(each.measure)
    return found


def _of_source(status: SourceStatus) -> dict[str, float | None]:
    orphaned = status.orphaned
    return {
        "source.peers": None if status.peers is None else len(status.peers),
        "source.liveServers": None if status.live_servers is None else len(status.live_servers),
        "source.deadServers": None if status.dead_servers is None else len(status.dead_servers),
        "source.orphanedQueues": None if orphaned is None else len(orphaned),
        "source.orphanedWals": None if orphaned is None else sum(queue.sizeOfLogQueue for queue in orphaned),
        "source.regionsInTransition": status.regions_in_transition,
        "source.problems": len(status.problems) + status.problems_left_out,
    }


def _of_old_wals(found: OldWalSurvey) -> dict[str, float | None]:
    every, held, until_full = found.amount(), found.amount(Fate.HELD), found.forecast
    return {
        "source.oldWals": None if found.problem else every.files,
        "source.oldWalsBytes": None if found.problem else every.bytes,
        "source.heldOldWals": None if found.problem else held.files,
        "source.heldOldWalsBytes": None if found.problem else held.bytes,
        "source.heldOldWalsGrowth": until_full.bytes_per_second,
        "source.diskRemaining": None if until_full.space is None else until_full.space.remaining,
        "source.secondsUntilFull": until_full.seconds_left,
    }


def _of_peer(peer: PeerStatus) -> dict[str, float | None]:
    left, kinds = peer.bytes_left, {finding.kind for finding in of_peer(peer)}
    return {
        "source.ageOfOldestUnshippedEdit": _ms(peer.replicationLag, Certainty.AT_LEAST),
        "source.replicationLag": _ms(peer.replicationLag, Certainty.AT_MOST),
        "source.ageOfLastShippedOp": peer.ageOfLastShippedOp,
        "source.timestampOfLastShippedOp": peer.timestampOfLastShippedOp,
        "source.validThrough": peer.valid_through_ms,
        "source.lastSuccess": peer.last_success_ms,
        "source.sizeOfLogQueue": peer.sizeOfLogQueue,
        "source.walsLeft": peer.wals_left,
        "source.bytesLeft": None if left is None or (left.unsure and not left.known) else left.known,
        "source.walsOfUnknownSize": None if left is None else left.unsure,
        "source.sizeOfHFileRefsQueue": peer.sizeOfHFileRefsQueue,
        "source.bytesPerSecond": peer.pace.bytes_per_second,
        "source.secondsLeft": peer.pace.seconds_left,
        "source.maxLag": None if peer.max_lag is None else peer.max_lag * 1000,
        "source.managed": peer.managed,
        "source.paused": peer.paused,
        "source.peerClusterUp": peer.peer_cluster.reachable,
        "source.failing": None if peer.queues is None and peer.error is None else StatusKind.FAILING in kinds,
        "source.refused": None if peer.managed is None else StatusKind.REFUSED in kinds,
        "source.stuck": None if peer.queues is None else StatusKind.STUCK in kinds,
    }


def _ms(age: Age, bound: Certainty) -> int | None:
    """Return the age, if it is exact or has this bound."""
    return age.ms if age.certainty in (Certainty.EXACT, bound) else None


def exposition(values_by_source: Mapping[str, Sequence[Value]]) -> str:
    """Return the values of sources as text; each unknown value becomes a sample of `walferry_unknown`, which names it."""
    lines: list[str] = []
    for measure in MEASURES.values():
        samples = list(_unknown(values_by_source) if measure is UNKNOWN else _samples(measure, values_by_source))
        if samples:
            help_text = measure.help.replace("\\", r"\\").replace("\n", r"\n")
            lines += [f"# HELP {measure.prometheus} {help_text}", f"# TYPE {measure.prometheus} gauge", *samples]
    return "".join(f"{line}\n" for line in lines)


def _samples(measure: Measure, values_by_source: Mapping[str, Sequence[Value]]) -> Iterator[str]:
    for source, values in values_by_source.items():
        for each in values:
            if each.measure is measure and each.value is not None:
                yield _sample(measure, _labels(source, each.peer_id), each.value / measure.per)


def _unknown(values_by_source: Mapping[str, Sequence[Value]]) -> Iterator[str]:
    for source, values in values_by_source.items():
        for peer_id, measures in unknown(values).items():
            for measure in measures:
                yield _sample(UNKNOWN, {**_labels(source, peer_id), "measure": measure.prometheus}, 1)


def _labels(source: str, peer_id: str | None) -> dict[str, str]:
    return {"source": source} if peer_id is None else {"source": source, "peer": peer_id}


def _sample(measure: Measure, labels: Mapping[str, str], value: float) -> str:
    reported = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    return f"{measure.prometheus}{{{reported}}} {_number(value)}"


def _escaped(text: str) -> str:
    known = text.encode("utf-8", "replace").decode()  # a lone surrogate would make the whole file invalid
    return known.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))

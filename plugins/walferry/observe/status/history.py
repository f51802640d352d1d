"""How a peer's replication stood in the last day: a ring of samples, for plots.

    <root>/history/<quoted znode parent>/<quoted peer>      history

    history   = "WFH" version sample*       version = 0x01; the oldest sample first, each of a later interval than the one before
    sample    = interval lag certainty bytes unsure shipped wals                                        all integers big-endian
    interval  = uint32     seconds since the epoch, divided by 300
    lag       = int64      ms, -1: not known          the age of the oldest edit that is not shipped
    certainty = uint8      0 exact, 1 at most, 2 at least, 3 unknown; lag is -1 exactly if it is 3
    bytes     = int64      -1: not known              bytes behind the positions of closed WALs of known size
    unsure    = uint32     WALs whose bytes are not among these; 0 if bytes is -1
    shipped   = int64      -1: not known              bytes of cells that were acknowledged since the sample before
    wals      = int32      -1: not known              WALs that can be shipped

A ring has at most 288 samples, a day's worth, and so less than 11 kB. Only the writer's clock says which interval it is. The next
write removes samples of the future, which a wrong clock has left. Each write depends on the version that was read, so two writers
never lose each other's samples, and an interval is written once.

The history only feeds a plot. If a znode holds something else, a warning says so and a new history begins.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise

from walferry.base.records import NotARecord
from walferry.base.zk.client import read_all
from walferry.base.zk.errors import ZNodeValueError
from walferry.base.zk.records import update
from walferry.observe.status.ages import Age, Certainty
from walferry.observe.status.model import PeerStatus, SourceStatus
from walferry.observe.status.notes import checked_summary, newest_runs
from walferry.replication.source.session import Session

INTERVAL_SECONDS = 300
SAMPLES = 86_400 // INTERVAL_SECONDS
_HEAD = b"WFH\x01"
_SAMPLE = struct.Struct(">IqBqIqi")
_CERTAINTIES = tuple(Certainty)
_UNKNOWN = _CERTAINTIES.index(Certainty.UNKNOWN)
_LONG_MAX = (1 << 63) - 1
_UINT_MAX = (1 << 32) - 1
_INT_MAX = (1 << 31) - 1

log = logging.getLogger(__name__)


class HistoryError(ZNodeValueError):
    """A znode does not contain a history."""

    def __init__(self, znode: str, reason: str) -> None:
        super().__init__(znode, reason, "The next sample begins it anew")


@dataclass(frozen=True, slots=True)
class Sample:
    """How the peer stood in one interval of INTERVAL_SECONDS; None is not known."""

    interval: int
    lag_ms: int | None
    certainty: Certainty
    bytes_left: int | None
    unsure: int
    shipped_bytes: int | None
    wals_left: int | None

    @property
    def at(self) -> float:
        """When the interval began, in seconds since the epoch."""
        return float(self.interval * INTERVAL_SECONDS)


def sample_at(
    at: float, lag: Age, bytes_left: tuple[int, int] | None, shipped_bytes: int | None, wals_left: int | None
) -> Sample:
    """Return the sample of the interval that contains `at`. `bytes_left` are the known bytes, and the number of unsure WALs.

    Numbers that are too large for a sample are cut to the largest that it takes.
    """
    known, unsure = (None, 0) if bytes_left is None else (min(bytes_left[0], _LONG_MAX), min(bytes_left[1], _UINT_MAX))
    return Sample(
        interval=min(max(0, int(at)) // INTERVAL_SECONDS, _UINT_MAX),
        lag_ms=None if lag.ms is None or lag.certainty is Certainty.UNKNOWN else min(lag.ms, _LONG_MAX),
        certainty=Certainty.UNKNOWN if lag.ms is None else lag.certainty,
        bytes_left=known,
        unsure=unsure,
        shipped_bytes=None if shipped_bytes is None else min(shipped_bytes, _LONG_MAX),
        wals_left=None if wals_left is None else min(wals_left, _INT_MAX),
    )


def encode(samples: Iterable[Sample]) -> bytes:
    """Return the value of a history's znode."""
    return _HEAD + b"".join(_SAMPLE.pack(*map(_as_number, astuple(each))) for each in samples)


def decode(value: bytes, znode: str) -> tuple[Sample, ...]:
    """Return the samples in a znode's value, the oldest first. Raises HistoryError."""
    body = value[len(_HEAD) :]
    if not value.startswith(_HEAD):
        raise HistoryError(znode, f"{value[:16]!r} does not begin with {_HEAD!r}")
    if len(body) % _SAMPLE.size or len(body) > SAMPLES * _SAMPLE.size:
        raise HistoryError(znode, f"{len(value):,} bytes are not up to {SAMPLES} samples of {_SAMPLE.size} bytes")
    samples = tuple(_sample(fields, znode) for fields in _SAMPLE.iter_unpack(body))
    if any(after.interval <= before.interval for before, after in pairwise(samples)):
        raise HistoryError(znode, "its samples are not in the order of their intervals")
    return samples


def _sample(fields: Sequence[int], znode: str) -> Sample:
    interval, lag, certainty, known, unsure, shipped, wals = fields
    if min(lag, known, shipped, wals) < -1 or certainty >= len(_CERTAINTIES):
        raise HistoryError(znode, f"sample {tuple(fields)} has a value that it cannot have")
    if (lag == -1) != (certainty == _UNKNOWN) or (known == -1 and unsure):
        raise HistoryError(znode, f"sample {tuple(fields)} contradicts itself")
    return Sample(interval, _or_none(lag), _CERTAINTIES[certainty], _or_none(known), unsure, _or_none(shipped), _or_none(wals))


def read_histories(session: Session, peer_ids: Sequence[str]) -> tuple[dict[str, tuple[Sample, ...]], list[str]]:
    """Return these peers' histories, empty for a peer without one, and the others' problems. Raises ConnectError."""
    found: dict[str, tuple[Sample, ...]] = {}
    problems = []
    paths = [session.own.history(peer_id) for peer_id in peer_ids]
    for peer_id, path, znode in zip(peer_ids, paths, read_all(session.zk, paths), strict=True):
        try:
            found[peer_id] = () if znode is None else decode(znode.value, path)
        except HistoryError as error:
            problems.append(str(error))
    return found, problems


def record_sample(session: Session, peer_id: str, sample: Sample) -> bool:
    """Add a sample to the peer's history, unless its interval has one. Returns whether it was added.

    Raises Contention, ConnectError.
    """
    path = session.own.history(peer_id)

    def with_sample(value: bytes | None) -> bytes | None:
        before = () if value is None else _kept(value, path, sample.interval)
        return None if before and before[-1].interval == sample.interval else encode((*before, sample))

    return update(session.zk, path, with_sample)


def _kept(value: bytes, path: str, interval: int) -> tuple[Sample, ...]:
    """Return the samples of the day that ends with `interval`."""
    try:
        samples = decode(value, path)
    except HistoryError as error:
        log.warning("%s", error)
        return ()
    return tuple(each for each in samples if interval - SAMPLES < each.interval <= interval)


def _as_number(value: int | Certainty | None) -> int:
    if value is None:
        return -1
    return _CERTAINTIES.index(value) if isinstance(value, Certainty) else value


def _or_none(number: int) -> int | None:
    return None if number == -1 else number


def record(session: Session, status: SourceStatus) -> int:
    """Add a sample of this interval to each peer's history, unless it has one. Returns how many were added.

    Raises Contention, ConnectError.
    """
    peers = status.peers or ()
    histories, _ = read_histories(session, [peer.id for peer in peers])
    return sum(_record(session, peer, histories.get(peer.id, ()), status.at_ms / 1000) for peer in peers)


def _record(session: Session, peer: PeerStatus, history: Sequence[Sample], at: float) -> bool:
    interval = int(at) // INTERVAL_SECONDS
    if history and history[-1].interval == interval:
        return False
    before = next((sample.interval for sample in reversed(history) if sample.interval < interval), interval - 1)
    since = time.time() - (interval - before) * INTERVAL_SECONDS
    left = None if peer.bytes_left is None else (peer.bytes_left.known, peer.bytes_left.unsure)
    shipped = shipped_since(session, peer.id, since) if peer.managed else None
    return record_sample(session, peer.id, sample_at(at, peer.replicationLag, left, shipped, peer.wals_left))


def shipped_since(session: Session, peer_id: str, since: float) -> int:
    """Return about how many bytes of cells the peer's newest runs have shipped since `since`, in seconds since the epoch.

    A run's note contains its sum and for how long the run has been at work. So its bytes count as spread evenly over that time.
    """
    runs = newest_runs(session, [peer_id]).get(peer_id, [])
    paths = [path for run in runs for path in run.values()]
    shipped = 0.0
    for znode in read_all(session.zk, paths):
        if znode is None or znode.stat.mtime <= since * 1000:
            continue
        try:
            summary = checked_summary(znode.value)
        except NotARecord:  # a pass reports it
            continue
        seconds = max(summary.seconds, 0.001)
        shipped += summary.shippedBytes * min(1.0, (znode.stat.mtime / 1000 - since) / seconds)
    return int(shipped)

"""Surveys the regions that are in transition, in trouble or not served: who must act next, and what will be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from walferry.base.findings import Finding, Severity, wrong
from walferry.base.protos import hbase_pb2 as pb
from walferry.base.texts import one_line
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.binary_text import to_binary_text
from walferry.master.decide import Decision, Region, Step
from walferry.master.snapshot import ClusterSnapshot
from walferry.master.tables import table_of
from walferry.master.znodes import META_ENCODED_NAME, encoded_name

MAX_NAME_BYTES = 300  # of a region's name, which contains a row key
MAX_TEXT_CHARS = 1000
REGIONS = "regions"
NOT_SERVED, SERVED_TWICE, MISPLACED, BROKEN = "not served", "served twice", "open elsewhere", "broken"
OPEN, CLOSED, UNKNOWN = "open", "closed", "unknown"
WALFERRY, OPERATOR, NOBODY = "`regions unstick`, or an HMaster that is started", "an operator", "nobody"
_UNLISTED = (OPEN, CLOSED, UNKNOWN)
_NOTHING = "nothing is to be done"


@dataclass(frozen=True)
class SurveyRow:
    """A region that is not simply open or closed. `seconds` is the time since its znode changed, None without a znode.

    `next` says who must act next; `what` is the next step, and `why` its reason. `stuck` means that people should look at it.
    """

    region: str
    table: str
    name: str
    state: str
    seconds: float | None
    server: str
    next: str
    what: str
    why: str
    stuck: bool

    @property
    def finding(self) -> Finding:
        """Return the region's state and the advice as a finding."""
        since = "" if self.seconds is None else f"for {self.seconds:.0f} s"
        text = ": ".join(filter(None, (" ".join(filter(None, (self.where, since))), self.why)))
        severity = Severity.WRONG if self.stuck else Severity.NOTE
        return Finding(self.state, severity, text, self.next_step, f"region {self.region} of {self.table}")

    @property
    def where(self) -> str:
        """The server in words; empty if there is none, or if `why` begins with it."""
        if not self.server or self.why.startswith(self.server):
            return ""
        return f"last at {self.server}" if self.state == NOT_SERVED else f"at {self.server}"

    @property
    def verdict(self) -> str:
        """Why the region is in this state, and the next step."""
        return f"{self.why}. {self.next_step}"

    @property
    def next_step(self) -> str:
        """Who acts next, and how."""
        return f"Next, {self.next}: {self.what}"


@dataclass(frozen=True)
class RegionSurvey:
    """The results of one look. `master` names the cluster's acting master, empty if there is none.

    `open` counts the open regions, and `closed` the regions of disabled tables. `problems` lists unreadable data other than the
    regions' znodes, and `complete` is False if hbase:meta is among it.
    """

    master: str
    live: Sequence[str]
    silent: Sequence[str]
    recovering: Sequence[str]
    complete: bool
    known: int
    open: int
    closed: int
    rows: Sequence[SurveyRow]
    problems: Sequence[str]

    @property
    def well(self) -> bool:
        """Whether everything is known and no region is stuck."""
        return not self.findings

    @property
    def findings(self) -> list[Finding]:
        """List what people should look at: unknown facts, stuck regions, and broken znodes."""
        stuck = [row.finding for row in self.rows if row.stuck]
        return [*(wrong(REGIONS, text) for text in self.unknown), *stuck, *(wrong(REGIONS, text) for text in self.problems)]

    @property
    def unknown(self) -> list[str]:
        """Say why some facts are not known for all regions."""
        unread = [] if self.complete else ["hbase:meta cannot be read, so only its own region and those in transition are known"]
        return unread + [f"RegionServer {server} has not said which regions it serves" for server in self.silent]

    def summary(self) -> list[str]:
        """Count the open regions, the regions of disabled tables, and the listed regions by state."""
        servers = f"{len(self.live):,} RegionServers"
        lines = [f"{self.open:,} of {self.known:,} regions are open at {servers}; {self.master or 'no master'} is active"]
        if self.closed:
            lines.append(f"closed, because their tables are disabled: {self.closed:,}")
        if self.rows:
            states = ", ".join(f"{count:,} {state}" for state, count in Counter(row.state for row in self.rows).most_common())
            stuck = sum(row.stuck for row in self.rows)
            lines.append(f"in transition or in trouble, the most urgent first: {len(self.rows):,} ({states}); stuck: {stuck:,}")
        return lines


def survey(snapshot: ClusterSnapshot) -> RegionSurvey:
    """List the regions that are in transition, not served, served twice, or served elsewhere than hbase:meta says."""
    view = snapshot.view
    rows = [
        row_of(snapshot, region, decision) for region, decision in snapshot.decided if _state(snapshot, region) not in _UNLISTED
    ]
    rows += [_broken_row(error) for error in view.broken if isinstance(error, ZNodeValueError)]
    others = (error for error in view.broken if not isinstance(error, ZNodeValueError))
    problems = [one_line(str(error), MAX_TEXT_CHARS) for error in (*others, *snapshot.read.broken)]
    settled = [region for region in view.regions.values() if region.znode is None]
    return RegionSurvey(
        snapshot.master,
        sorted(map(str, view.servers.live)),
        sorted(map(str, view.silent)),
        sorted(map(str, view.servers.recovering)),
        snapshot.read.complete,
        len(view.regions.keys() | view.catalog.keys()),
        sum(len(region.served_by) == 1 for region in settled),
        sum(not region.served_by and not region.wanted for region in settled),
        sorted(rows, key=_urgency),
        problems,
    )


def _urgency(row: SurveyRow) -> tuple[Any, ...]:
    """Return a sort key: stuck rows first; of these hbase:meta, which all others need, HBase's own tables, then lost data."""
    own = (row.region != META_ENCODED_NAME, not row.table.startswith("hbase:"))
    worst = (SERVED_TWICE, NOT_SERVED)
    return (not row.stuck, *own, worst.index(row.state) if row.state in worst else len(worst), -(row.seconds or 0), row.region)


def row_of(snapshot: ClusterSnapshot, region: Region, decision: Decision) -> SurveyRow:
    """Describe one region: its state, who must act next and what will be done."""
    state = _state(snapshot, region)
    known = snapshot.view.catalog.get(encoded_name(region.name))
    server = region.znode.server if region.znode is not None else (min(region.served_by, default=region.last_server))
    why, what, next_ = decision.why, decision.step.value, _next(snapshot, decision)
    if decision.step is Step.WAIT and decision.server in snapshot.view.servers.recovering and snapshot.hmaster is None:
        what = f"split the WALs of {decision.server}"
    if state in (OPEN, CLOSED) and decision.step is Step.WAIT:
        what, next_ = _NOTHING, NOBODY
    if state == MISPLACED and decision.step is Step.WAIT:
        why = f"hbase:meta names {region.last_server}, so clients do not find it"
        tool = "`move` in HBase's shell" if snapshot.hmaster is not None else "`regions move`"
        what, next_ = f"move it with {tool}: that writes hbase:meta anew", OPERATOR
    late = region.znode is not None and region.idle_seconds >= snapshot.limit_seconds
    return SurveyRow(
        encoded_name(region.name),
        shown_table(known.info) if known is not None else one_line(shown_name(region.name.partition(b",")[0]), MAX_TEXT_CHARS),
        shown_name(region.name),
        state,
        region.idle_seconds if region.znode is not None else None,
        " and ".join(sorted(map(str, region.served_by))) if state == SERVED_TWICE else str(server or ""),
        next_,
        what,
        one_line(why, MAX_TEXT_CHARS),
        decision.step is Step.REPORT or late or state in (NOT_SERVED, SERVED_TWICE, MISPLACED, UNKNOWN),
    )


def _broken_row(error: ZNodeValueError) -> SurveyRow:
    encoded = one_line(error.znode.rpartition("/")[2], MAX_NAME_BYTES)
    why = one_line(error.reason, MAX_TEXT_CHARS)
    return SurveyRow(encoded, "?", "", BROKEN, None, "", OPERATOR, one_line(error.advice, MAX_TEXT_CHARS), why, True)


def _state(snapshot: ClusterSnapshot, region: Region) -> str:
    """Return a region's state in words: the state in its znode, or one of this module's states."""
    if len(region.served_by) > 1:
        return SERVED_TWICE
    if region.znode is not None:
        return region.znode.state.name
    if not region.served_by:
        if not region.wanted:
            return CLOSED
        return UNKNOWN if snapshot.view.silent else NOT_SERVED  # a silent server may serve the region
    if region.last_server is not None and region.last_server not in region.served_by and snapshot.read.complete:
        return MISPLACED
    return OPEN


def _next(snapshot: ClusterSnapshot, decision: Decision) -> str:
    if decision.step is Step.REPORT:
        return OPERATOR
    if decision.step is Step.GIVE_UP_OPEN:
        return f"{OPERATOR}, with `regions unstick`"
    if decision.step is Step.WAIT and decision.server is not None and decision.server in snapshot.view.servers.live:
        return f"RegionServer {decision.server}"
    return snapshot.master or WALFERRY


def shown_table(info: pb.RegionInfo) -> str:
    """Return the name of a region's table, for people."""
    return one_line(table_of(info), MAX_NAME_BYTES)


def shown_name(name: bytes) -> str:
    """Write a region's full name as HBase's shell does; a long name is cut."""
    return to_binary_text(name[:MAX_NAME_BYTES]) + ("…" if len(name) > MAX_NAME_BYTES else "")

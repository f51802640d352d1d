"""What is known of regions in words: which are in transition or not served, who must act next, and what will be done.

It changes nothing, and needs no role. What it tells comes from one look at the cluster (`master.Cluster.look`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from walferry.hbase.binary_text import from_binary_text, to_binary_text
from walferry.hbase.errors import ZNodeValueError
from walferry.names import ServerName
from walferry.regions.beside import decide_beside
from walferry.regions.catalog import CatalogRead, table_of
from walferry.regions.decide import Decision, Region, Step
from walferry.regions.errors import Refused
from walferry.regions.master import Cluster, decide_for
from walferry.regions.reconcile import LIMIT_SECONDS, View
from walferry.regions.role import active_hmaster
from walferry.regions.states import State
from walferry.regions.znodes import META_ENCODED_NAME, encoded_name
from walferry.texts import one_line
from walferry.zk.hold import is_held, read_record

MAX_NAME_BYTES = 300  # of a region's name, which holds a row key
MAX_TEXT_CHARS = 1000
NOT_SERVED, SERVED_TWICE, MISPLACED, BROKEN = "not served", "served twice", "open elsewhere", "broken"
OPEN, CLOSED, UNKNOWN = "open", "closed", "unknown"
WALFERRY, OPERATOR, NOBODY = "`regions unstick`, or an HMaster that is started", "an operator", "nobody"
_UNLISTED = (OPEN, CLOSED, UNKNOWN)
_NOTHING = "nothing is to be done"

_RULES = {
    None: "A region without a znode is open at one server, or its table is disabled.",
    State.OFFLINE: "The master has asked the server of the znode to open the region. Only that server may change the znode, to "
    "OPENING (REGIONSERVER 3).",
    State.OPENING: "The server of the znode opens the region. It changes the znode to OPENED (REGIONSERVER 4) or FAILED_OPEN.",
    State.OPENED: "The server of the znode has opened the region. The master sees it and deletes the znode (MASTER 3).",
    State.FAILED_OPEN: "The server of the znode could not open the region. The master forces the znode to OFFLINE and asks "
    "another server (MASTER 2).",
    State.CLOSING: "The master has asked the server of the znode to close the region. That server changes the znode to CLOSED "
    "(REGIONSERVER 2).",
    State.CLOSED: "The server of the znode has closed the region. The master forces the znode to OFFLINE and asks a server to "
    "open the region (MASTER 2), or deletes the znode if the region is to stay closed.",
    State.REQUEST_SPLIT: "The server of the znode asks to split the region. The master changes the znode to SPLITTING.",
    State.SPLITTING: "The server of the znode splits the region. It changes the znode to SPLIT.",
    State.SPLIT: "The region is split. The master sees it and deletes the znode.",
    State.REQUEST_MERGE: "The server of the znode asks to merge two regions. The master changes the znode to MERGING.",
    State.MERGING: "The server of the znode merges two regions. It changes the znode to MERGED.",
    State.MERGED: "The regions are merged. The master sees it and deletes the znode.",
}


@dataclass(frozen=True)
class Row:
    """A region that is not simply open or closed. `seconds` is the time since its znode changed, None without a znode.

    `next` says who must act next, and `what` and `why` what will be done. `stuck` says that people should look at it.
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

    def line(self) -> str:
        """Name the region, its state and server, and say what to do."""
        since = "" if self.seconds is None else f" for {self.seconds:.0f} s"
        at = f", {self.where}" if self.state == NOT_SERVED else f" {self.where}"
        where = at if self.where else ""
        return f"region {self.region} of {self.table} is {self.state}{where}{since}: {self.verdict}"

    @property
    def where(self) -> str:
        """The server in words; empty if there is none, or if `why` begins with it."""
        if not self.server or self.why.startswith(self.server):
            return ""
        return f"last at {self.server}" if self.state == NOT_SERVED else f"at {self.server}"

    @property
    def verdict(self) -> str:
        """Why the region is as it is, and who does what next."""
        return f"{self.why}. Next, {self.next}: {self.what}"


@dataclass(frozen=True)
class Survey:
    """What one look has found. `master` names who acts as the cluster's master, empty if there is none.

    `open` counts the regions that are open, and `closed` those of disabled tables. `problems` are what could not be read besides
    the regions' znodes, and `complete` is False if hbase:meta was among it.
    """

    master: str
    live: Sequence[str]
    silent: Sequence[str]
    recovering: Sequence[str]
    complete: bool
    known: int
    open: int
    closed: int
    rows: Sequence[Row]
    problems: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The survey as JSON knows it."""
        return asdict(self)

    @property
    def well(self) -> bool:
        """Whether everything is known, and no region is stuck."""
        return not (self.unknown or self.problems or any(row.stuck for row in self.rows))

    @property
    def unknown(self) -> list[str]:
        """Why something is not known of all regions."""
        unread = [] if self.complete else ["hbase:meta cannot be read, so only its own region and those in transition are known"]
        return unread + [f"RegionServer {server} has not said which regions it serves" for server in self.silent]

    def summary(self) -> list[str]:
        """Count the regions: those that are open, those of disabled tables, and the listed ones by their state."""
        servers = f"{len(self.live):,} RegionServers"
        lines = [f"{self.open:,} of {self.known:,} regions are open at {servers}; {self.master or 'no master'} is active"]
        if self.closed:
            lines.append(f"closed, because their tables are disabled: {self.closed:,}")
        if self.rows:
            states = ", ".join(f"{count:,} {state}" for state, count in Counter(row.state for row in self.rows).most_common())
            stuck = sum(row.stuck for row in self.rows)
            lines.append(f"in transition or in trouble, the most urgent first: {len(self.rows):,} ({states}); stuck: {stuck:,}")
        return lines


@dataclass(frozen=True)
class Looked:
    """One look at a cluster, with what was decided for each region. `hmaster` is the HMaster that is active, if one is."""

    view: View
    read: CatalogRead
    hmaster: ServerName | None
    master: str
    decided: Sequence[tuple[Region, Decision]]
    limit_seconds: float


def look_and_decide(cluster: Cluster, limit_seconds: float = LIMIT_SECONDS) -> Looked:
    """Look at all regions, and decide as the active master's kind allows. Raises StoreError, ClusterError, ConnectError."""
    hmaster = active_hmaster(cluster.zk, cluster.nodes)
    master = f"HMaster {hmaster}" if hmaster is not None else ""
    if not master and is_held(cluster.zk, cluster.own.master_role):
        master = f"Walferry ({read_record(cluster.zk, cluster.own.master_role).get('holder', 'an unknown run')})"
    view, read = cluster.look()
    decided = decide_for(view, read, limit_seconds)
    if hmaster is not None:
        unread = Decision(Step.WAIT, "hbase:meta cannot be read", hmaster)
        decided = [
            (region, decide_beside(view, region, hmaster, limit_seconds) if read.complete or _is_meta(region) else unread)
            for region, _ in decided
        ]
    return Looked(view, read, hmaster, master, decided, limit_seconds)


def survey(looked: Looked) -> Survey:
    """List the regions that are in transition, not served, served twice, or served elsewhere than hbase:meta says."""
    view = looked.view
    rows = [_row(looked, region, decision) for region, decision in looked.decided if _state(looked, region) not in _UNLISTED]
    rows += [_broken_row(error) for error in view.broken if isinstance(error, ZNodeValueError)]
    others = (error for error in view.broken if not isinstance(error, ZNodeValueError))
    problems = [one_line(str(error), MAX_TEXT_CHARS) for error in (*others, *looked.read.broken)]
    settled = [region for region in view.regions.values() if region.znode is None]
    return Survey(
        looked.master,
        sorted(map(str, view.servers.live)),
        sorted(map(str, view.silent)),
        sorted(map(str, view.servers.recovering)),
        looked.read.complete,
        len(view.regions.keys() | view.catalog.keys()),
        sum(len(region.served_by) == 1 for region in settled),
        sum(not region.served_by and not region.wanted for region in settled),
        sorted(rows, key=_urgency),
        problems,
    )


def _urgency(row: Row) -> tuple[Any, ...]:
    """Order rows: stuck ones first; of these hbase:meta, which all others need, then HBase's own tables, then what loses data."""
    own = (row.region != META_ENCODED_NAME, not row.table.startswith("hbase:"))
    worst = (SERVED_TWICE, NOT_SERVED)
    return (not row.stuck, *own, worst.index(row.state) if row.state in worst else len(worst), -(row.seconds or 0), row.region)


def explain(looked: Looked, asked: str) -> dict[str, Any]:
    """Tell all that is known of one region, named by its encoded or its full name. Raises Refused if it is not known."""
    view = looked.view
    encoded = resolve(looked, asked)
    wrong = [one_line(str(error), MAX_TEXT_CHARS) for error in _errors_of(view, encoded)]
    known = view.catalog.get(encoded)
    served = sorted(str(server) for server, names in view.online.items() if encoded in names)
    facts: dict[str, Any] = {
        "hbase:meta": None if known is None else {
            "name": _shown(known.name), "table": _table(known.info), "enabled": known.wanted,
            "server": str(known.server) if known.server else None, "since": _time(known.opened_ms) if known.opened_ms else None,
        },
        "served_by": served,
        "silent": sorted(map(str, view.silent)),
        "problems": wrong,
    }  # fmt: skip
    region = view.regions.get(encoded)
    if region is None:
        what = "nothing is done for it until its znode can be read"
        return {"region": encoded, "state": BROKEN, "stuck": True, "next": OPERATOR, "what": what} | facts
    (decision,) = [each for found, each in looked.decided if found is region]
    if znode := region.znode:
        facts["znode"] = {
            "state": znode.state.name, "server": str(znode.server), "server_is_live": znode.server in view.servers.live,
            "version": znode.version, "changed": _time(znode.changed_ms), "seconds": round(region.idle_seconds, 1),
            "ephemeral": znode.ephemeral, "name": _shown(znode.name),
        }  # fmt: skip
    if plan := region.plan:
        facts["plan"] = {"destination": str(plan.destination) if plan.destination else None, "reopen": plan.reopen,
                         "failures": plan.failures, "why": plan.why}  # fmt: skip
    last = region.znode.server if region.znode is not None else region.last_server
    if last is not None:
        facts["wals"] = {"server": str(last), "state": _wals(view, last)}
    row = _row(looked, region, decision)
    rule = _RULES[region.znode.state if region.znode is not None else None]
    verdict = {"state": row.state, "stuck": row.stuck, "next": row.next, "what": row.what, "why": row.why, "rule": rule}
    return {"region": encoded} | verdict | facts


def resolve(looked: Looked, asked: str) -> str:
    """Find the encoded name of a region that is named by it, or by its full name as HBase's shell shows it. Raises Refused."""
    view = looked.view
    try:
        full = encoded_name(from_binary_text(asked))
    except ValueError:
        full = asked
    for encoded in (asked, full):
        if encoded in view.regions or encoded in view.catalog or _errors_of(view, encoded):
            return encoded
    advice = "Give its encoded name, or its full name as HBase's shell shows it"
    if not looked.read.complete:
        advice = f"hbase:meta cannot be read now, so most regions are not known: see `regions explain {META_ENCODED_NAME}`"
    raise Refused(f"region {one_line(asked, MAX_NAME_BYTES)} is neither in hbase:meta nor in transition", advice)


def _errors_of(view: View, encoded: str) -> list[ZNodeValueError]:
    found = (error for error in view.broken if isinstance(error, ZNodeValueError))
    return [error for error in found if error.znode.endswith(f"/{encoded}")]


def _row(looked: Looked, region: Region, decision: Decision) -> Row:
    state = _state(looked, region)
    known = looked.view.catalog.get(encoded_name(region.name))
    server = region.znode.server if region.znode is not None else (min(region.served_by, default=region.last_server))
    why, what, next_ = decision.why, decision.step.value, _next(looked, decision)
    if decision.step is Step.WAIT and decision.server in looked.view.servers.recovering and looked.hmaster is None:
        what = f"split the WALs of {decision.server}"
    if state in (OPEN, CLOSED) and decision.step is Step.WAIT:
        what, next_ = _NOTHING, NOBODY
    if state == MISPLACED and decision.step is Step.WAIT:
        why = f"hbase:meta names {region.last_server}, so clients do not find it"
        tool = "`move` in HBase's shell" if looked.hmaster is not None else "`regions move`"
        what, next_ = f"move it with {tool}: that writes hbase:meta anew", OPERATOR
    late = region.znode is not None and region.idle_seconds >= looked.limit_seconds
    return Row(
        encoded_name(region.name),
        _table(known.info) if known is not None else one_line(_shown(region.name.partition(b",")[0]), MAX_TEXT_CHARS),
        _shown(region.name),
        state,
        region.idle_seconds if region.znode is not None else None,
        " and ".join(sorted(map(str, region.served_by))) if state == SERVED_TWICE else str(server or ""),
        next_,
        what,
        one_line(why, MAX_TEXT_CHARS),
        decision.step is Step.REPORT or late or state in (NOT_SERVED, SERVED_TWICE, MISPLACED, UNKNOWN),
    )


def _broken_row(error: ZNodeValueError) -> Row:
    encoded = one_line(error.znode.rpartition("/")[2], MAX_NAME_BYTES)
    why = one_line(error.reason, MAX_TEXT_CHARS)
    return Row(encoded, "?", "", BROKEN, None, "", OPERATOR, one_line(error.advice, MAX_TEXT_CHARS), why, True)


def _state(looked: Looked, region: Region) -> str:
    """The state of a region in words: that of its znode, or one of this module's."""
    if len(region.served_by) > 1:
        return SERVED_TWICE
    if region.znode is not None:
        return region.znode.state.name
    if not region.served_by:
        if not region.wanted:
            return CLOSED
        return UNKNOWN if looked.view.silent else NOT_SERVED  # a silent server may serve it
    if region.last_server is not None and region.last_server not in region.served_by and looked.read.complete:
        return MISPLACED
    return OPEN


def _next(looked: Looked, decision: Decision) -> str:
    if decision.step is Step.REPORT:
        return OPERATOR
    if decision.step is Step.GIVE_UP_OPEN:
        return f"{OPERATOR}, with `regions unstick`"
    if decision.step is Step.WAIT and decision.server is not None and decision.server in looked.view.servers.live:
        return f"RegionServer {decision.server}"
    return looked.master or WALFERRY


def _wals(view: View, server: ServerName) -> str:
    if server in view.servers.live:
        return "it is live, so they are its own"
    return "they are not split yet" if server in view.servers.recovering else "it is dead, and none is left to be split"


def _is_meta(region: Region) -> bool:
    return encoded_name(region.name) == META_ENCODED_NAME


def _table(info: Any) -> str:
    return one_line(table_of(info), MAX_NAME_BYTES)


def _shown(name: bytes) -> str:
    return to_binary_text(name[:MAX_NAME_BYTES]) + ("…" if len(name) > MAX_NAME_BYTES else "")


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):  # a znode's or row's time may be anything
        return f"{ms} ms"


def as_lines(told: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Write what `explain` tells for people."""
    for name, value in told.items():
        label = indent + name.replace("_", " ")
        if isinstance(value, dict):
            yield f"{label}:"
            yield from as_lines(value, indent + "  ")
        else:
            yield f"{label}: {_in_words(value)}"


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return " and ".join(value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)

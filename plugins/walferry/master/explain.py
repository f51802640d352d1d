"""Describes one region in words, with the rule of the protocol that says who must act next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from walferry.base.texts import one_line
from walferry.base.zk.errors import ZNodeValueError
from walferry.hbase.binary_text import from_binary_text
from walferry.hbase.names import ServerName
from walferry.master.errors import Refused
from walferry.master.reconcile import ClusterView
from walferry.master.snapshot import ClusterSnapshot
from walferry.master.states import RegionState
from walferry.master.survey import BROKEN, MAX_NAME_BYTES, MAX_TEXT_CHARS, OPERATOR, row_of, shown_name, shown_table
from walferry.master.znodes import META_ENCODED_NAME, encoded_name

_RULES = {
    None: "A region without a znode is open at one server, or its table is disabled.",
    RegionState.OFFLINE: "The master has asked the server of the znode to open the region. Only that server may change the "
    "znode, to OPENING (REGIONSERVER 3).",
    RegionState.OPENING: "The server of the znode opens the region. It changes the znode to OPENED (REGIONSERVER 4) or "
    "FAILED_OPEN.",
    RegionState.OPENED: "The server of the znode has opened the region. The master sees it and deletes the znode (MASTER 3).",
    RegionState.FAILED_OPEN: "The server of the znode could not open the region. The master forces the znode to OFFLINE and asks "
    "another server (MASTER 2).",
    RegionState.CLOSING: "The master has asked the server of the znode to close the region. That server changes the znode to "
    "CLOSED (REGIONSERVER 2).",
    RegionState.CLOSED: "The server of the znode has closed the region. The master forces the znode to OFFLINE and asks a "
    "server to open the region (MASTER 2), or deletes the znode if the region is to stay closed.",
    RegionState.REQUEST_SPLIT: "The server of the znode asks to split the region. The master changes the znode to SPLITTING.",
    RegionState.SPLITTING: "The server of the znode splits the region. It changes the znode to SPLIT.",
    RegionState.SPLIT: "The region is split. The master sees it and deletes the znode.",
    RegionState.REQUEST_MERGE: "The server of the znode asks to merge two regions. The master changes the znode to MERGING.",
    RegionState.MERGING: "The server of the znode merges two regions. It changes the znode to MERGED.",
    RegionState.MERGED: "The regions are merged. The master sees it and deletes the znode.",
}


def explain(snapshot: ClusterSnapshot, asked: str) -> dict[str, Any]:
    """Describe a region, given by its encoded or its full name. Raises Refused if the region is not known."""
    view = snapshot.view
    encoded = resolve(snapshot, asked)
    wrong = [one_line(str(error), MAX_TEXT_CHARS) for error in _errors_of(view, encoded)]
    known = view.catalog.get(encoded)
    served = sorted(str(server) for server, names in view.online.items() if encoded in names)
    facts: dict[str, Any] = {
        "hbase:meta": None if known is None else {
            "name": shown_name(known.name), "table": shown_table(known.info), "enabled": known.wanted,
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
    (decision,) = [each for found, each in snapshot.decided if found is region]
    if znode := region.znode:
        facts["znode"] = {
            "state": znode.state.name, "server": str(znode.server), "server_is_live": znode.server in view.servers.live,
            "version": znode.version, "changed": _time(znode.changed_ms), "seconds": round(region.idle_seconds, 1),
            "ephemeral": znode.ephemeral, "name": shown_name(znode.name),
        }  # fmt: skip
    if plan := region.plan:
        facts["plan"] = {"destination": str(plan.destination) if plan.destination else None, "reopen": plan.reopen,
                         "failures": plan.failures, "why": plan.why}  # fmt: skip
    last = region.znode.server if region.znode is not None else region.last_server
    if last is not None:
        facts["wals"] = {"server": str(last), "state": _wals(view, last)}
    row = row_of(snapshot, region, decision)
    rule = _RULES[region.znode.state if region.znode is not None else None]
    verdict = {"state": row.state, "stuck": row.stuck, "next": row.next, "what": row.what, "why": row.why, "rule": rule}
    return {"region": encoded} | verdict | facts


def resolve(snapshot: ClusterSnapshot, asked: str) -> str:
    """Return a region's encoded name, given this name or the full name as HBase's shell shows it. Raises Refused."""
    view = snapshot.view
    try:
        full = encoded_name(from_binary_text(asked))
    except ValueError:
        full = asked
    for encoded in (asked, full):
        if encoded in view.regions or encoded in view.catalog or _errors_of(view, encoded):
            return encoded
    advice = "Give its encoded name, or its full name as HBase's shell shows it"
    if not snapshot.read.complete:
        advice = f"hbase:meta cannot be read now, so most regions are not known: see `regions explain {META_ENCODED_NAME}`"
    raise Refused(f"region {one_line(asked, MAX_NAME_BYTES)} is neither in hbase:meta nor in transition", advice)


def _errors_of(view: ClusterView, encoded: str) -> list[ZNodeValueError]:
    found = (error for error in view.broken if isinstance(error, ZNodeValueError))
    return [error for error in found if error.znode.endswith(f"/{encoded}")]


def _wals(view: ClusterView, server: ServerName) -> str:
    if server in view.servers.live:
        return "it is live, so they are its own"
    return "they are not split yet" if server in view.servers.recovering else "it is dead, and none is left to be split"


def _time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
    except (OverflowError, OSError, ValueError):  # the time in a znode or row may be any number
        return f"{ms} ms"


def as_lines(reported: dict[str, Any], indent: str = "") -> Iterator[str]:
    """Write the result of `explain` as lines for people."""
    for name, value in reported.items():
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

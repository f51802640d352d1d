"""Plans: the destinations of regions. They are kept in ZooKeeper, so that the next holder of the master's role goes on with them.

    <root>/regions/<base>/plans/<encoded name>
    value = JSON { "destination": "host,port,startcode" | null, "reopen": true | false, "failures": int, "why": text }

A plan is written in the same multi as the first transition that it needs, and deleted with the last one. If HBase's own master
finishes the transition, the plan stays, and `plan_of` ignores it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kazoo.client import KazooClient

from walferry.base.records import NotARecord, Record
from walferry.base.texts import one_line
from walferry.base.zk.client import ZNode, read_children
from walferry.base.zk.records import decode, encode, wrong_record
from walferry.hbase.layout import OwnZNodes
from walferry.hbase.names import ServerName
from walferry.master.znodes import Readings, decoded

MAX_WHY_CHARS = 200


@dataclass(frozen=True)
class Plan:
    """A plan for a region. `reopen` is False for a table that is being disabled. Without a `destination` the balancer decides.

    `failures` counts the servers that could not open the region since the plan was made.
    """

    destination: ServerName | None
    reopen: bool
    why: str
    failures: int = 0


@dataclass(frozen=True)
class StoredPlan:
    """A plan as read, with the version of its znode and the transaction that changed it last."""

    plan: Plan
    version: int
    changed_zxid: int = 0


def plan_of(stored: StoredPlan | None, created_zxid: int | None) -> Plan | None:
    """Return the plan of a region whose znode was created by transaction `created_zxid` (None: it has no znode).

    An older plan belongs to transitions that are over, and is ignored.
    """
    if stored is None or created_zxid is None or stored.changed_zxid < created_zxid:
        return None
    return stored.plan


def read_plans(zk: KazooClient, own: OwnZNodes) -> Readings[StoredPlan]:
    """Read all plans by the regions' encoded names, and the errors of unreadable plans."""
    return decoded(read_children(zk, own.region_plans), own.region_plans, decode_plan)


@dataclass(frozen=True)
class _Stored(Record):
    """A plan in the form of its znode."""

    destination: str | None
    reopen: bool
    failures: int
    why: str


def decode_plan(found: ZNode, path: str) -> StoredPlan:
    """Decode a plan. Raises ZNodeValueError."""
    try:
        value = decode(_Stored, found.value)
        destination = None if value.destination is None else ServerName.parse(value.destination)
        if value.failures < 0:
            raise NotARecord(f"failures is {value.failures}")
        plan = Plan(destination, value.reopen, one_line(value.why, MAX_WHY_CHARS), value.failures)
        return StoredPlan(plan, found.stat.version, found.stat.mzxid)
    except ValueError as error:
        advice = "Nothing is done for this region. Delete the znode: then the region's state alone decides what is done"
        raise wrong_record(path, "a plan", error, advice) from error


def encode_plan(plan: Plan) -> bytes:
    """Encode a plan."""
    destination = None if plan.destination is None else str(plan.destination)
    return encode(_Stored(destination, plan.reopen, plan.failures, plan.why))

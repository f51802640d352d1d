"""ClientService.Multi: many row mutations of several regions in one request, and a result for each.

    MultiRequest        { 0A len RegionAction }*
    RegionAction        0A len RegionSpecifier   { 1A len Action }*
    RegionSpecifier     08 01   12 len the region's full name
    Action              08 index   12 len MutationProto
    MutationProto       10 type   2A len {0A 06 "_cs.id" 12 len cluster ids}   40 count of cells
    cell block          the cells of all actions, in their order

    MultiResponse       { 0A len RegionActionResult }*     one for each RegionAction
    RegionActionResult  { 0A len ResultOrException }* | 12 len NameBytesPair: none of its actions was carried out
    ResultOrException   08 index   12 len Result | 1A len NameBytesPair: the exception's class, and its stack trace

The peer cluster writes the actions of one RegionAction into one entry of its WAL, with the cluster ids of the action that it
carries out first. So all actions of a RegionAction have the same list of ids. The server carries them out row by row, and keeps
the order within a row. A mutation does not name its row: the server takes the row of the first cell.

Source: HBase's Client.proto, RSRpcServices.multi, HRegion.doMiniBatchMutate (branch-2.6, branch-1.4).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from walferry.base.kernels.compiled import inlined, unmanaged
from walferry.base.kernels.read import WireType, flat, read_field
from walferry.base.kernels.types import Bytes, Ints, IntTable, IntView, OutBytes, OutInt8s, OutIntTable
from walferry.base.kernels.write import copy_bytes, put_varint, varint_len
from walferry.base.protos.parsing import delimited
from walferry.hbase.rpc.codec import CodecError
from walferry.replication.sinks.hbase.actions import ActionRow, Actions

METHOD = "Multi"
MAX_EXCEPTIONS = 100  # that are kept from a response
MAX_EXCEPTION_BYTES = 16 << 10  # that are kept of each exception
_REGION_NAME = b"\x08\x01\x12"  # RegionSpecifier: type REGION_NAME, then the name
_ATTRIBUTE = b"\x0a\x06_cs.id\x12"  # NameBytesPair: the name, then the value


class ActionOutcome(enum.IntEnum):
    """The response's verdict on an action."""

    NOTHING = 0
    DONE = 1
    FAILED = 2


@dataclass(frozen=True)
class RegionActions:
    """Some actions of one region, all with the same cluster ids, in the order in which they take effect."""

    region: bytes  # its full name
    actions: Ints


@dataclass(frozen=True)
class Multi:
    """A request, and the data to read its response."""

    param: Bytes
    cells: Bytes
    order: Ints  # the actions, in the order of the request
    firsts: Ints  # where each RegionAction begins in `order`, and where the last one ends


@dataclass(frozen=True)
class MultiResult:
    """The outcome of each action, in the order of the request, and some exceptions of failed actions: a few distinct
    NameBytesPairs, long ones cut off. The response itself may be large, so it is not kept.
    """

    outcome: npt.NDArray[np.int8]
    exceptions: tuple[bytes, ...]


def assemble_multi(actions: Actions, groups: Sequence[RegionActions]) -> Multi:
    """Return the request for some actions."""
    order = np.concatenate([group.actions for group in groups])
    firsts = np.cumsum([0, *(group.actions.size for group in groups)], dtype=np.int64)
    region_ends, regions = flat([_REGION_NAME + delimited(group.region) for group in groups])
    attribute_ends, attributes = flat([b"\x2a" + delimited(_ATTRIBUTE + delimited(ids)) for ids in actions.cluster_ids])
    table = actions.table
    sizes = np.empty((2, order.size), np.int64)
    length = _measure(table, order, firsts, region_ends, attribute_ends, sizes)
    param = np.empty(length, np.uint8)
    written = _write(table, order, firsts, regions, region_ends, attributes, attribute_ends, sizes, param)
    if written != length:  # otherwise the rest would be uninitialized memory
        raise AssertionError(f"{written} bytes of a Multi where {length} were announced")
    return Multi(param, _gathered(actions, order), order, firsts)


def read_result(multi: Multi, response: bytes) -> MultiResult:
    """Read the outcome of each action from the response to `multi`. Raises CodecError."""
    buf = np.frombuffer(response or b"\0", np.uint8)
    buf.flags.writeable = False
    outcome = np.zeros(multi.order.size, np.int8)
    error_at = np.zeros((multi.order.size, 2), np.int64)
    at = _read(buf, len(response), multi.firsts, outcome, error_at)
    if at >= 0:
        raise CodecError(f"the result of a Multi of {multi.firsts.size - 1} regions cannot be read at its byte {at}")
    return MultiResult(outcome, _exceptions(response, error_at[outcome == ActionOutcome.FAILED]))


def _exceptions(response: bytes, ranges: Ints) -> tuple[bytes, ...]:
    """Return the beginnings of the bytes at these ranges. Thousands of failed actions may share a reason, or even a range."""
    firsts = np.unique(ranges[:, 0], return_index=True)[1]
    found: dict[bytes, None] = {}
    for start, end in ranges[firsts].tolist():
        found[response[start : min(end, start + MAX_EXCEPTION_BYTES)]] = None
        if len(found) == MAX_EXCEPTIONS:
            break
    return tuple(found)


def _gathered(actions: Actions, order: Ints) -> Bytes:
    """Return the cells of the actions, one after the other."""
    starts, ends, parts = actions.of(ActionRow.START), actions.of(ActionRow.END), actions.of(ActionRow.PART)
    sizes = (ends - starts)[order]
    to = np.cumsum(sizes) - sizes
    cells = np.empty(int(sizes.sum()), np.uint8)
    for part in np.unique(parts[order]):
        _copy(actions.cells[int(part)], int(part), parts, starts, ends, order, to, cells)
    return cells


@unmanaged
def _measure(table: IntView, order: Ints, firsts: Ints, region_ends: Ints, attribute_ends: Ints, sizes: OutIntTable) -> int:
    """Write the lengths of MutationProtos to `sizes[0]`, of RegionActions to `sizes[1]`. Returns the length of all."""
    length = 0
    for group in range(firsts.size - 1):
        region_len = region_ends[group + 1] - region_ends[group]
        group_len = 1 + varint_len(region_len) + region_len
        for place in range(firsts[group], firsts[group + 1]):
            action = order[place]
            ids = table[ActionRow.IDS, action]
            mutation = 2 + attribute_ends[ids + 1] - attribute_ends[ids] + 1 + varint_len(table[ActionRow.CELLS, action])
            body = 1 + varint_len(place - firsts[group]) + 1 + varint_len(mutation) + mutation
            sizes[0, place] = mutation
            group_len += 1 + varint_len(body) + body
        sizes[1, group] = group_len
        length += 1 + varint_len(group_len) + group_len
    return length


@unmanaged
def _write(
    table: IntView, order: Ints, firsts: Ints, regions: Bytes, region_ends: Ints, attributes: Bytes, attribute_ends: Ints,
    sizes: IntTable, out: OutBytes,
) -> int:  # fmt: skip
    """Write the MultiRequest. Returns its length."""
    at = 0
    for group in range(firsts.size - 1):
        out[at] = 0x0A
        at = put_varint(out, at + 1, sizes[1, group])
        region_len = region_ends[group + 1] - region_ends[group]
        out[at] = 0x0A
        at = copy_bytes(out, put_varint(out, at + 1, region_len), regions, region_ends[group], region_len)
        for place in range(firsts[group], firsts[group + 1]):
            action, index, mutation = order[place], place - firsts[group], sizes[0, place]
            out[at] = 0x1A
            at = put_varint(out, at + 1, 1 + varint_len(index) + 1 + varint_len(mutation) + mutation)
            out[at] = 0x08
            at = put_varint(out, at + 1, index)
            out[at] = 0x12
            at = put_varint(out, at + 1, mutation)
            out[at], out[at + 1] = 0x10, table[ActionRow.KIND, action]
            ids = table[ActionRow.IDS, action]
            at = copy_bytes(out, at + 2, attributes, attribute_ends[ids], attribute_ends[ids + 1] - attribute_ends[ids])
            out[at] = 0x40
            at = put_varint(out, at + 1, table[ActionRow.CELLS, action])
    return at


@unmanaged
def _copy(buf: Bytes, part: int, parts: Ints, starts: Ints, ends: Ints, order: Ints, to: Ints, out: OutBytes) -> None:
    """Copy the cells of a part's actions to their places in `out`."""
    for place in range(order.size):
        action = order[place]
        if parts[action] == part:
            copy_bytes(out, to[place], buf, starts[action], ends[action] - starts[action])


@inlined
def _fail(outcome: OutInt8s, error_at: OutIntTable, place: int, start: int, end: int) -> None:
    outcome[place] = ActionOutcome.FAILED
    error_at[place, 0], error_at[place, 1] = start, end


@inlined
def _read_action(buf: Bytes, pos: int, end: int, first: int, count: int, outcome: OutInt8s, error_at: OutIntTable) -> int:
    """Read a ResultOrException of a group that begins at place `first`. Returns -1, or the position of unreadable bytes."""
    index, result, error, error_end = 0, False, -1, -1
    while pos < end:
        tag, value, first_byte, after = read_field(buf, pos, end)
        if after < 0:
            return pos
        if tag == 1 << 3 | WireType.VARINT:
            index = value
        elif tag == 2 << 3 | WireType.BYTES:
            result = True
        elif tag == 3 << 3 | WireType.BYTES:
            error, error_end = first_byte, after
        pos = after
    if not 0 <= index < count:
        return pos
    place = first + index
    if error >= 0:
        _fail(outcome, error_at, place, error, error_end)
    elif result and outcome[place] == ActionOutcome.NOTHING:
        outcome[place] = ActionOutcome.DONE
    return -1


@unmanaged
def _read(buf: Bytes, end: int, firsts: Ints, outcome: OutInt8s, error_at: OutIntTable) -> int:
    """Fill `outcome` and `error_at` from a MultiResponse. Returns -1, or the position of unreadable bytes."""
    pos, group = 0, 0
    while pos < end:
        tag, _, start, after = read_field(buf, pos, end)
        if after < 0 or (tag == 1 << 3 | WireType.BYTES and group == firsts.size - 1):
            return pos
        if tag == 1 << 3 | WireType.BYTES:
            first, count = firsts[group], firsts[group + 1] - firsts[group]
            at = start
            while at < after:
                inner, _, inner_start, inner_end = read_field(buf, at, after)
                if inner_end < 0:
                    return at
                if inner == 1 << 3 | WireType.BYTES:
                    problem = _read_action(buf, inner_start, inner_end, first, count, outcome, error_at)
                    if problem >= 0:
                        return problem
                elif inner == 2 << 3 | WireType.BYTES:
                    for place in range(first, first + count):
                        _fail(outcome, error_at, place, inner_start, inner_end)
                at = inner_end
            group += 1
        pos = after
    return -1 if group == firsts.size - 1 else end

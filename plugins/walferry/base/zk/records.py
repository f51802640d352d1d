"""Reads and writes records in znodes: JSON of bounded size, compressed if it is large.

There are three ways to write a record: over the previous one (`put`), only as the successor of the one that was read (`update`),
or by the holder of a lease or lock (`put_fenced`, `set_fenced`, `delete_fenced`, with the fence's own checks in the same multi).
`decode` reads it, and takes nothing for granted: any user who may write to ZooKeeper may have put anything there.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, NodeExistsError, NoNodeError, SessionExpiredError

from walferry.base.records import MAX_BYTES, NotARecord, Record, converted, parsed, record_of, text_of
from walferry.base.texts import one_line
from walferry.base.zk.client import NOT_AS_READ, OUTCOME_UNKNOWN, Refusal, expected, read, retried, unanswered
from walferry.base.zk.errors import MAX_ERROR_CHARS, Contention, ZNodeValueError

COMPRESSED_FROM_BYTES = 16 << 10  # smaller ones stay readable in ZooKeeper's own client
DELETED_AT_ONCE = 500  # znodes in one multi, with paths of some 150 bytes; ZooKeeper's limit is 1 MB
UPDATE_TRIES = 50  # a try fails if another client writes between the read and the write
_ZLIB = b"x"  # begins each compressed value; no JSON begins with it

Fence = Callable[[Callable[[TransactionRequest], None]], Refusal | None]  # sends a multi behind checks, perhaps repeatedly

T = TypeVar("T")


def encode(record: Any) -> bytes:
    """Return a znode's value for the record: a `Record`, or plain values."""
    text = (record.to_json() if isinstance(record, Record) else text_of(record)).encode()
    return text if len(text) < COMPRESSED_FROM_BYTES else zlib.compress(text)


def decode(kind: type[T], value: bytes, most_bytes: int = MAX_BYTES) -> T:
    """Return the record of this kind, such as a `Record` or a dict[str, int], in a znode's value. Raises NotARecord.

    `most_bytes` limits its JSON.
    """
    text = _unpacked(value, most_bytes)
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind.from_json(text, most_bytes)
    found: T = converted(kind, parsed(text, most_bytes), "it")
    return found


def decode_or_none(kind: type[T], value: bytes, most_bytes: int = MAX_BYTES) -> T | None:
    """Do the same as `decode`, but return None for anything that is not a record of this kind."""
    try:
        return decode(kind, value, most_bytes)
    except NotARecord:
        return None


def decode_each(kind: type[T], value: bytes) -> dict[str, T]:
    """Return the records of this kind in a znode's value, which has them by names. Those that are none are left out."""
    found = {}
    for name, values in (decode_or_none(dict[str, Any], value) or {}).items():
        with suppress(NotARecord):
            found[name] = record_of(kind, values)
    return found


def wrong_record(path: str, what: str, error: ValueError, advice: str) -> ZNodeValueError:
    """Return the error for a znode that does not contain `what`, such as "a plan"."""
    return ZNodeValueError(path, f"it is not {what}: {one_line(str(error), MAX_ERROR_CHARS)}", advice)


def put(zk: KazooClient, path: str, value: bytes) -> int:
    """Write a znode whatever its value, or make it and its parents. Returns its version. Raises ConnectError."""
    try:
        return int(retried(zk, zk.set, path, value).version)
    except NoNodeError:
        try:
            retried(zk, zk.create, path, value, makepath=True)
        except NodeExistsError:  # made meanwhile, perhaps by our own request whose answer was lost
            return int(retried(zk, zk.set, path, value).version)
        return 0


def update(zk: KazooClient, path: str, change: Callable[[bytes | None], bytes | None], tries: int = UPDATE_TRIES) -> bool:
    """Replace a znode's value by the result of `change`, or make the znode and its parents.

    `change` gets the present value (None: there is no znode), again after each write of another client, and returns None to leave
    the value unchanged. Returns whether this call has written, or may have: after a try whose answer was lost, there may be
    nothing left to change. Another client may be faster `tries` times. Raises Contention, ConnectError.
    """
    maybe_ours, left = False, tries
    while left:
        znode = read(zk, path)
        value = change(znode.value if znode else None)
        if value is None:
            return maybe_ours
        try:
            if znode is not None:
                zk.set(path, value, znode.stat.version)
            else:
                retried(zk, zk.ensure_path, path.rpartition("/")[0])
                zk.create(path, value)
        except NOT_AS_READ:
            left -= 1
            continue
        except (AuthFailedError, ConnectionClosedError) as error:
            raise unanswered(zk, f"does not answer ({type(error).__name__})") from error
        except (*OUTCOME_UNKNOWN, SessionExpiredError):  # the next read waits for the connection
            maybe_ours = True
            continue
        return True
    raise Contention(f"{path} changed {tries} times while it was being written; try again later")


def put_fenced(zk: KazooClient, fence: Fence, path: str, value: bytes) -> None:
    """Do the same as `put`, but only while the fence lets the write through. Raises the fence's errors, ConnectError."""
    retried(zk, zk.ensure_path, path.rpartition("/")[0])
    refusal = fence(lambda multi: multi.create(path, value))
    if refusal is not None and isinstance(refusal.error, NodeExistsError):
        refusal = fence(lambda multi: multi.set_data(path, value))
    if refusal is not None:
        raise refusal.error


def set_fenced(zk: KazooClient, fence: Fence, path: str, value: bytes, version: int | None) -> int | None:
    """Replace a znode's value at this version (None: make the znode), while the fence lets the write through.

    Returns the new version; None if another client has written or deleted the znode. Raises the fence's errors, ConnectError.
    """
    if version is None:
        refusal = fence(lambda multi: multi.create(path, value))
    else:
        refusal = fence(lambda multi: multi.set_data(path, value, version))
    if refusal is None:
        return 0 if version is None else version + 1
    znode = read(zk, path)
    if znode is None or znode.value != value:  # otherwise an earlier try of ours was carried out, and its answer lost
        return None
    return int(znode.stat.version)


def delete_fenced(fence: Fence, paths: Sequence[str]) -> None:
    """Delete the existing ones of these znodes, while the fence lets the writes through. Raises the fence's errors."""
    for start in range(0, len(paths), DELETED_AT_ONCE):
        left = list(paths[start : start + DELETED_AT_ONCE])

        def delete(multi: TransactionRequest, left: list[str] = left) -> None:
            for path in left:
                multi.delete(path)

        while left and (refusal := expected(fence(delete), NoNodeError)) is not None:
            del left[refusal.operation]  # deleted by another client, or by an earlier try whose answer was lost


def _unpacked(value: bytes, most_bytes: int) -> bytes:
    if not value.startswith(_ZLIB):
        return value
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(value, most_bytes + 1)
    except zlib.error as error:
        raise NotARecord(f"it cannot be unpacked: {error}") from None
    if len(text) <= most_bytes and (not stream.eof or stream.unused_data):
        raise NotARecord("it is not packed as a whole")
    return text

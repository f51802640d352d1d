"""Reads and writes files by URL, on any file system.

Local files are read directly, all others through fsspec: hdfs:// and viewfs:// by hdfs-native, which takes its settings (name
services, Kerberos) from HADOOP_CONF_DIR and its user from the folder's login (logins.py), or without Kerberos from
HADOOP_USER_NAME; s3a:// and the like if their fsspec package is installed.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import stat
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

from walferry.base.closing import Closing
from walferry.hbase.files.clients import at, file_system, local_path, remote, scheme, system_and_path
from walferry.hbase.files.errors import NoFileRight, StoreError, UnreadableBytes
from walferry.hbase.files.logins import HDFS_SCHEMES
from walferry.hbase.files.unreadable import DAMAGED, readable_bytes, readable_pieces, reason_on_hdfs

COPY_BYTES = 8 << 20
READ_PATIENCE_SECONDS = 10.0  # with a failing read: a DataNode restarts, or a connection is cut
FIRST_PAUSE_SECONDS = 1.0
_SEE_LOG = "The machine's log says more"
_MODIFIED_KEYS = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")  # of fsspec's file systems

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A file or a folder, as a listing shows it."""

    name: str
    size: int  # bytes
    modified: float | None  # seconds since the epoch; None if the file system does not report it
    is_folder: bool


class OpenWal(Closing):
    """An open WAL; `size` is its length in bytes when it was opened. Also a context manager that closes it."""

    size: int

    @abstractmethod
    def read_at(self, offset: int, length: int) -> bytes:
        """Return `length` bytes from `offset` on; fewer only at the end of the file."""


def open_wal(url: str, *, patience: float = 0.0) -> OpenWal:
    """Open the file behind a URL for reads at any offset from any thread. Raises FileNotFoundError, StoreError.

    Its reads raise UnreadableBytes. On HDFS, a failed read is repeated for about `patience` seconds.
    """
    return _LocalFile(url) if scheme(url) == "file" else _RemoteFile(url, patience)


def write_file(url: str, data: bytes) -> None:
    """Write a whole file, make its folder, and replace an existing file. Raises StoreError."""
    with NewFile(url, in_place=False) as file:
        file.write(data)


def copy_file(source: str, target: str) -> None:
    """Copy a file, make the target's folder, and replace an existing file. Raises StoreError, FileNotFoundError."""
    with open_wal(source, patience=READ_PATIENCE_SECONDS) as file:
        _copy((file.read_at(offset, COPY_BYTES) for offset in range(0, file.size, COPY_BYTES)), source, file.size, target)


def copy_what_is_left(source: str, target: str) -> list[tuple[int, int]]:
    """Copy a file as `copy_file` does, with zeros in place of lost bytes. Returns where the lost bytes begin and end."""
    holes: list[tuple[int, int]] = []
    with open_wal(source) as file:
        _copy(readable_pieces(file.read_at, file.size, COPY_BYTES, holes), source, file.size, target)
    return holes


def _copy(pieces: Iterable[bytes], source: str, size: int, target: str) -> None:
    copied = 0
    with NewFile(target, in_place=False) as copy:
        for data in pieces:
            copy.write(data)
            copied += len(data)
        if copied < size:
            raise StoreError(f"{source}: ended at byte {copied} of {size} while it was copied")


class NewFile:
    """A file that is being written in pieces of COPY_BYTES. It makes its folder. It and its methods raise StoreError.

    A context manager: if the block raises, the file is deleted. Unless it is written `in_place`, it gets its name at the block's
    end, and then replaces an existing file.
    """

    def __init__(self, url: str, *, in_place: bool = True) -> None:
        self._url = url
        self._system, self._path = system_and_path(url)
        # Two peers' runs may write the same file at the same time.
        self._part = self._path if in_place else f"{self._path}.{uuid4().hex}.part"
        self._held: list[bytes] = []
        self._size = 0
        remote(url, lambda: self._system.makedirs(self._path.rpartition("/")[0], exist_ok=True))
        self._file: Any = remote(url, lambda: self._system.open(self._part, "wb"))

    def write(self, data: bytes | memoryview) -> None:
        """Append a copy of the data to the file."""
        self._held.append(bytes(data))
        self._size += len(data)
        if self._size >= COPY_BYTES:
            self._flush()

    def _flush(self) -> None:
        data, self._held, self._size = b"".join(self._held), [], 0
        remote(self._url, lambda: self._file.write(data))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self._flush()
            remote(self._url, self._file.close)
            if self._part != self._path:
                remote(self._url, lambda: _put_in_place(self._system, self._part, self._path))
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        with suppress(StoreError, FileNotFoundError):  # the earlier error is the one to report
            remote(self._url, self._file.close)
        with suppress(StoreError, FileNotFoundError):
            remote(self._url, lambda: self._system.rm_file(self._part))


def _put_in_place(system: Any, part: str, path: str) -> None:
    with suppress(FileNotFoundError):
        if system.exists(path):
            system.rm_file(path)
    system.mv(part, path)


def file_size(url: str) -> int:
    """Return the size in bytes of the file behind a URL. Raises FileNotFoundError, StoreError."""
    if scheme(url) == "file":
        try:
            return os.stat(local_path(url)).st_size
        except PermissionError as error:
            raise NoFileRight(f"{url}: {error.strerror}. The user that runs this must be able to read below wal_root") from error
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ENAMETOOLONG):
                raise
            raise FileNotFoundError(errno.ENOENT, "no such file", url) from None
    return at(url, lambda system, path: int(system.info(path)["size"]))


def list_folder(url: str, wanted: Callable[[str], bool]) -> dict[str, int]:
    """List the wanted files and folders of a folder, with their sizes in bytes. Empty if the folder does not exist.

    Unwanted names are not kept in memory, however many there are. Raises StoreError.
    """
    try:
        return {entry.name: entry.size for entry in _entries(url, wanted)}
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # a folder that hides its names may still show a file
        return {}


def list_entries(url: str) -> list[FolderEntry]:
    """List a folder in one call, with sizes and times. Empty if the folder does not exist. Raises StoreError."""
    try:
        return _entries(url, lambda _: True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except PermissionError as error:
        raise NoFileRight(f"{url}: {error.strerror}. The user that runs this must be able to list this folder") from error


def delete_file(url: str) -> None:
    """Delete a file, if it exists. Raises StoreError."""
    with suppress(FileNotFoundError):
        at(url, lambda system, path: system.rm_file(path))


def delete_empty_folder(url: str) -> None:
    """Delete a folder if it is empty."""
    with suppress(FileNotFoundError, StoreError):
        at(url, lambda system, path: system.rmdir(path))


def exists(url: str) -> bool:
    """Return whether a file or folder exists. Raises StoreError."""
    if scheme(url) == "file":
        return os.path.lexists(local_path(url))
    return at(url, lambda system, path: bool(system.exists(path)))


def rename(source: str, target: str) -> None:
    """Rename a file or folder within its file system. This never replaces anything, and the target's parent must exist.

    Raises FileNotFoundError if the source does not exist, and StoreError, also if the target exists.
    """
    if not exists(source):
        raise FileNotFoundError(errno.ENOENT, "no such file", source)
    if exists(target):
        raise StoreError(f"{source} was not renamed: {target} exists already. Look at both, and move one away")
    if (kind := scheme(source)) == "file":
        os.rename(local_path(source), local_path(target))
        return
    if kind not in HDFS_SCHEMES:
        raise StoreError(f"{source}: a rename on {kind}:// is not one step. WALs must be on HDFS or a local disk")
    at(source, lambda system, path: system.client.rename(path, system._strip_protocol(target), False))


def make_folder(url: str) -> None:
    """Make a folder with its parents, unless it exists. Raises StoreError."""
    at(url, lambda system, path: system.makedirs(path, exist_ok=True))


def delete_folder(url: str) -> None:
    """Delete a folder with its contents, if it exists. Raises StoreError."""
    if exists(url):
        at(url, lambda system, path: system.rm(path, recursive=True))


def touch(url: str) -> None:
    """Set a file's modification time, from which HBase's cleaners count, to now. Raises FileNotFoundError, StoreError."""
    if scheme(url) == "file":
        os.utime(local_path(url))
        return
    now_ms = int(time.time() * 1000)
    at(url, lambda system, path: system.client.set_times(path, now_ms, now_ms))


def _entries(url: str, wanted: Callable[[str], bool]) -> list[FolderEntry]:
    if scheme(url) == "file":
        return list(_local_entries(local_path(url), wanted))
    return at(url, lambda system, path: [entry for entry in _remote_entries(url, system, path) if wanted(entry.name)])


def _local_entries(path: str, wanted: Callable[[str], bool]) -> Iterator[FolderEntry]:
    with os.scandir(path) as entries:
        for entry in entries:
            if wanted(entry.name):
                with suppress(FileNotFoundError):  # it has moved since
                    status = entry.stat()
                    yield FolderEntry(entry.name, status.st_size, status.st_mtime, stat.S_ISDIR(status.st_mode))


def _remote_entries(url: str, system: Any, path: str) -> Iterator[FolderEntry]:
    if scheme(url) in HDFS_SCHEMES:  # fsspec would keep the whole listing
        for status in system.client.list_status(path, False):
            yield FolderEntry(_last(status.path), int(status.length), status.modification_time / 1000, bool(status.isdir))
        return
    for info in system.ls(path, detail=True, refresh=True):  # other runs write there too, so a cached listing will not do
        yield FolderEntry(_last(info["name"]), int(info["size"] or 0), _modified(info), info["type"] == "directory")


def _modified(info: Mapping[str, Any]) -> float | None:
    """Return the time of a file's last write, under any of the names that file systems give it."""
    for key in _MODIFIED_KEYS:
        value = info.get(key)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, (int, float)):
            return float(value)
    return None


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def read_fd(fd: int, offset: int, length: int) -> bytes:
    """Return `length` bytes of an open file from `offset` on; fewer only at the end of the file."""
    data = os.pread(fd, length, offset)
    while 0 < len(data) < length and (more := os.pread(fd, length - len(data), offset + len(data))):
        data += more
    return data


class _LocalFile(OpenWal):
    def __init__(self, url: str) -> None:
        self._url = url
        try:
            self._fd = os.open(local_path(url), os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            raise NoFileRight(f"{url}: {error.strerror}. The user that runs this must be able to read this file") from error
        except OSError as error:
            if error.errno not in DAMAGED:
                raise
            raise UnreadableBytes(url, 0, f"the disk does not give this file ({error.strerror})", _SEE_LOG) from error
        self.size = os.fstat(self._fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        try:
            return read_fd(self._fd, offset, length)
        except OSError as error:
            if error.errno not in DAMAGED:
                raise
            found = readable_bytes(lambda at, count: read_fd(self._fd, at, count), offset, length)
            lost, at = found < length, offset + (found if found < length else 0)
            why = f"the disk does not give these bytes ({error.strerror})"
            raise UnreadableBytes(self._url, at, why, _SEE_LOG, lost=lost) from error

    def close(self) -> None:
        os.close(self._fd)


class _RemoteFile(OpenWal):
    def __init__(self, url: str, patience: float) -> None:
        self._url = url
        self._patience = patience
        self._opened: tuple[Any, threading.Lock] = remote(url, self._open)
        self._unreadable: UnreadableBytes | None = None
        self.size = int(self._opened[0].size)

    def read_at(self, offset: int, length: int) -> bytes:
        # hdfs-native panics if it is asked for bytes beyond the end.
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        known = self._unreadable
        if known is not None and offset <= known.offset < offset + length:
            raise known
        began = time.monotonic()
        try:
            return remote(self._url, lambda: self._read(offset, length))
        except StoreError as error:
            if type(error) is not StoreError or scheme(self._url) not in HDFS_SCHEMES:  # of a login or a NameNode
                raise
            return self._read_again(offset, length, error, began + self._patience)

    def _read_again(self, offset: int, length: int, error: StoreError, give_up: float) -> bytes:
        """Repeat a failed read, with the DataNodes that have the bytes by now. Raises UnreadableBytes."""
        pause = FIRST_PAUSE_SECONDS
        while time.monotonic() + pause < give_up:
            log.info("%s: a read at byte %d has failed; trying again in %g s", self._url, offset, pause)
            time.sleep(pause)
            pause *= 2
            self._opened = remote(self._url, self._open)
            try:
                return remote(self._url, lambda: self._read(offset, length))
            except StoreError as again:
                error = again
        self._patience = 0.0  # the next read need not wait for the same trouble
        reason, found = reason_on_hdfs(self._url, error.__cause__, str(error).removeprefix(f"{self._url}: ")), length
        if reason.lost:  # else each step would wait for a silent DataNode
            found = readable_bytes(lambda at, count: remote(self._url, lambda: self._read(at, count)), offset, length)
        lost, at = found < length, offset + (found if found < length else 0)
        self._unreadable = UnreadableBytes(self._url, at, reason.why, reason.advice, lost=lost)
        raise self._unreadable from error

    def _open(self) -> tuple[Any, threading.Lock]:
        """Return the file and a lock: a seek and the read after it must not be separated."""
        # Callers read whole WAL batches; fsspec's cache would only copy them.
        return file_system(self._url).open(self._url, "rb", cache_type="none"), threading.Lock()

    def _read(self, offset: int, length: int) -> bytes:
        file, lock = self._opened
        if scheme(self._url) in HDFS_SCHEMES:
            # Each piece is copied and freed at once. Pieces that are kept until all are there (`read`, `join`) need new memory
            # of the operating system, which takes longer than to read them. BytesIO does not copy `bytes` that only it has.
            out = io.BytesIO(bytes(length))
            for piece in file.read_range_stream(offset, length):
                out.write(piece)
            out.truncate()
            return out.getvalue()
        with lock:
            file.seek(offset)
            data = bytes(file.read(length))
            while len(data) < length and (more := file.read(length - len(data))):
                data += more
            return data

    def close(self) -> None:
        self._opened[0].close()

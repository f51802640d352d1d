"""Opening a WAL wherever it lies now.

    <wal root>/WALs/<server>/<wal>                written to, or just closed
    <wal root>/WALs/<server>-splitting/<wal>      of a dead server whose edits HBase is recovering
    <wal root>/oldWALs/<wal>                      archived
    <wal root>/oldWALs/<server>/<wal>             archived, with hbase.separate.oldlogdir.by.regionserver

A WAL moves down this list, never up, so looking in this order finds it even if it moves meanwhile. HBase moves files by renaming
them: one that is open can be read on; one that vanished between finding and opening raises FileNotFoundError, and is looked for
again by the caller.

Local files are read directly, all else through fsspec: hdfs:// and viewfs:// by hdfs-native, which takes its settings (name
services, Kerberos) from HADOOP_CONF_DIR and its user from HADOOP_USER_NAME; s3a:// and the like if their fsspec package is there.
WALs lie on local files and HDFS only: elsewhere nothing tells whether the length of a file that was never closed is final.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import fsspec

from walferry.errors import WalferryError
from walferry.files.namenodes import namenodes
from walferry.hosts import unreachable
from walferry.names import WalName

WALS = "WALs"
OLD_WALS = "oldWALs"
SPLITTING = "-splitting"
HDFS_SCHEMES = ("hdfs", "viewfs")
REMOTE_TIMEOUT_S = 120.0  # for one request; longer than a NameNode's failover takes
COPY_BYTES = 8 << 20
_ADVICE = "Check wal_root and the file system's settings (HADOOP_CONF_DIR)"

_file_systems: dict[tuple[int, str, str], Any] = {}
_file_systems_lock = threading.Lock()

T = TypeVar("T")


class StoreError(WalferryError):
    """The file system did not do what was asked of it; the message names the file or folder."""


class WrongRoot(StoreError):
    """No cluster keeps its WALs at wal_root."""


class OpenWal(Protocol):
    """An open WAL; `size` is its length in bytes when it was opened. Also a context manager that closes it."""

    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        """`length` bytes from `offset` on; fewer only at the end of the file."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


@dataclass(frozen=True)
class WalLocation:
    """Where a WAL was found."""

    url: str
    size: int  # bytes; of a file on HDFS that is still written to, less than there is
    archived: bool  # lies in oldWALs: HBase is done with it
    splitting: bool = False  # lies in the folder of a dead server that the master has renamed to recover its WALs

    @property
    def fenced(self) -> bool:
        """Whether no server can write to it any more."""
        return self.archived or self.splitting


def open_wal(url: str) -> OpenWal:
    """The file behind a URL, for reads at any offset from any thread. Raises FileNotFoundError, StoreError."""
    return _LocalFile(url) if _scheme(url) == "file" else _RemoteFile(url)


def write_file(url: str, data: bytes) -> None:
    """Write a file as a whole, with its folder; one that is there is replaced. Raises StoreError."""

    def write() -> None:
        system, path = _system_and_path(url)
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        part = _part(path)
        try:
            with system.open(part, "wb") as file:
                file.write(data)
            _put_in_place(system, part, path)
        except BaseException:
            _remove(system, part)
            raise

    _remote(url, write)


def copy_file(source: str, target: str) -> None:
    """Copy a file to another place, with its folder; one that is there is replaced. Raises StoreError, FileNotFoundError."""
    with open_wal(source) as file:
        system, path = _system_and_path(target)
        _remote(target, lambda: system.makedirs(path.rpartition("/")[0], exist_ok=True))
        part = _part(path)
        try:
            with _remote(target, lambda: system.open(part, "wb")) as copy:
                for offset in range(0, file.size, COPY_BYTES):
                    data = file.read_at(offset, COPY_BYTES)
                    _remote(target, lambda data=data: copy.write(data))  # type: ignore[misc]
            _remote(target, lambda: _put_in_place(system, part, path))
        except BaseException:
            _remote(target, lambda: _remove(system, part))
            raise


def _system_and_path(url: str) -> tuple[Any, str]:
    system = _file_system(url)
    return system, _local_path(url) if _scheme(url) == "file" else system._strip_protocol(url)


def _part(path: str) -> str:
    """Where a file is written first: two peers' runs may write the same one at the same time."""
    return f"{path}.{uuid4().hex}.part"


def _remove(system: Any, part: str) -> None:
    with suppress(Exception):  # what went wrong before is what there is to tell
        system.rm_file(part)


def _put_in_place(system: Any, part: str, path: str) -> None:
    with suppress(FileNotFoundError):
        if system.exists(path):
            system.rm_file(path)
    system.mv(part, path)


def file_size(url: str) -> int:
    """Bytes of the file behind a URL. Raises FileNotFoundError, StoreError."""
    if _scheme(url) == "file":
        try:
            return os.stat(_local_path(url)).st_size
        except NotADirectoryError:
            raise FileNotFoundError(errno.ENOENT, "no such file", url) from None
        except PermissionError as e:
            raise StoreError(f"{url}: {e.strerror}. The user that runs this must be able to read below wal_root") from e
        except OSError as e:
            if e.errno != errno.ENAMETOOLONG:
                raise
            raise FileNotFoundError(errno.ENOENT, "no such file", url) from None
    return _remote(url, lambda: int(_file_system(url).info(url)["size"]))


def _exists(url: str) -> bool:
    try:
        file_size(url)
    except FileNotFoundError:
        return False
    return True


class WalStore:
    """The WALs of one cluster. `root` is the URL of hbase.wal.dir, or of hbase.rootdir where that is not set.

    With `look_only` the file system is asked, but told nothing: no lease is recovered.
    """

    def __init__(self, wal_root: str, *, look_only: bool = False) -> None:
        self.root = wal_root.rstrip("/")
        self.look_only = look_only
        self._is_a_root = False

    def check_root(self) -> None:
        """Raises WrongRoot if the root has no folder of WALs, as each cluster's has; StoreError if that cannot be told."""
        self._is_a_root = self._is_a_root or any(_exists(f"{self.root}/{folder}") for folder in (WALS, OLD_WALS))
        if self._is_a_root:  # that is not asked again for each WAL that is missing
            return
        what = f"the folder has neither {WALS} nor {OLD_WALS} in it" if _exists(self.root) else "there is no such folder"
        raise WrongRoot(
            f"wal_root {self.root}: {what}, so no WAL is found there and how much is to be shipped is not known. Set wal_root in "
            "the connection's extra to the source's hbase.wal.dir, or to its hbase.rootdir if that is not set"
        )

    def locate(self, wal: WalName, dead_servers: Sequence[str] = ()) -> WalLocation | None:
        """The WAL's place now; `dead_servers` are those its queue came from. None if it is in none of `places`.

        Raises StoreError if the file system does not answer.
        """
        for url in self.places(wal, dead_servers):
            try:
                archived = url.startswith(f"{self.root}/{OLD_WALS}/")
                return WalLocation(url, file_size(url), archived, splitting=url.rpartition("/")[0].endswith(SPLITTING))
            except FileNotFoundError:
                continue
        return None

    def places(self, wal: WalName, dead_servers: Sequence[str] = ()) -> list[str]:
        """URLs at which the WAL can lie, in the order in which HBase moves it from one to the next."""
        servers = list(dict.fromkeys([*([str(wal.server)] if wal.server else []), *dead_servers]))
        return [
            *(f"{self.root}/{WALS}/{server}/{wal.text}" for server in servers),
            *(f"{self.root}/{WALS}/{server}{SPLITTING}/{wal.text}" for server in servers),
            f"{self.root}/{OLD_WALS}/{wal.text}",
            *(f"{self.root}/{OLD_WALS}/{server}/{wal.text}" for server in servers),
        ]

    def open(self, location: WalLocation) -> OpenWal:
        """The file there. Raises FileNotFoundError if it has moved on, StoreError."""
        return open_wal(location.url)

    def has_no_writer(self, location: WalLocation) -> bool:
        """Whether the length of a file to which no server writes any more is final.

        On HDFS a file has a writer until it is closed, and until then the length that others see is stale. There this asks the
        NameNode to close the file, as HBase itself does before it reads a WAL that was not closed cleanly; it may take some
        seconds, so ask again. A store that is `look_only` asks whether it is closed. Raises FileNotFoundError, StoreError.
        """
        if not location.fenced:
            raise ValueError(f"{location.url} is neither archived nor being split: its writer must not be disturbed")
        if (scheme := _scheme(location.url)) == "file":
            return True
        if scheme not in HDFS_SCHEMES:
            raise StoreError(
                f"{location.url}: on {scheme}:// nothing says whether the length of a file that was never closed is final. "
                "wal_root must be on HDFS or local files"
            )

        if self.look_only:
            return not self.is_growing(location)

        def ask() -> bool:
            system = _file_system(location.url)
            return bool(system.client.recover_lease(system._strip_protocol(location.url)))

        return _remote(location.url, ask)

    def is_growing(self, location: WalLocation) -> bool:
        """Whether the file was not closed, on a file system where it may be longer then than it seems.

        The NameNode counts the last block of such a file as a full one. Raises FileNotFoundError, StoreError.
        """
        if _scheme(location.url) not in HDFS_SCHEMES:
            return False

        def ask() -> bool:
            system = _file_system(location.url)
            path = system._strip_protocol(location.url)
            copies, used = system.client.get_file_info(path).replication, system.client.get_content_summary(path)
            return not copies or bool(used.space_consumed != used.length * copies)  # no copies: erasure coded

        return _remote(location.url, ask)


class _LocalFile:
    def __init__(self, url: str) -> None:
        self._fd = os.open(_local_path(url), os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        while 0 < len(data) < length and (more := os.pread(self._fd, length - len(data), offset + len(data))):
            data += more
        return data

    def close(self) -> None:
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _RemoteFile:
    def __init__(self, url: str) -> None:
        self._url = url
        self._lock = threading.Lock()  # seek and read belong together
        self._file: Any = _remote(url, self._open)
        self.size = int(self._file.size)

    def read_at(self, offset: int, length: int) -> bytes:
        # hdfs-native panics when it is asked for what lies behind the end.
        length = min(length, self.size - offset)
        return _remote(self._url, lambda: self._read(offset, length)) if length > 0 else b""

    def _open(self) -> Any:
        # Whole windows are asked for; a cache of fsspec's own would only copy them.
        return _file_system(self._url).open(self._url, "rb", cache_type="none")

    def _read(self, offset: int, length: int) -> bytes:
        with self._lock:
            self._file.seek(offset)
            data = bytes(self._file.read(length))
            while len(data) < length and (more := self._file.read(length - len(data))):
                data += more
            return data

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _file_system(url: str) -> Any:
    """fsspec's file system for a URL: one a process for each scheme and host, with its connections."""
    parts = urlsplit(url)
    key = (os.getpid(), parts.scheme, parts.netloc)  # connections do not survive a fork
    if key not in _file_systems and parts.scheme in HDFS_SCHEMES and (why := unreachable(namenodes(url))):
        raise StoreError(f"{url}: {why}. {_ADVICE}")  # hdfs-native would try for ever
    with _file_systems_lock:
        if key not in _file_systems:
            # fsspec's own cache keeps one a thread, for ever.
            # The path is left out: "::" in it, as in the name of an IPv6 host's folder, would mean something to fsspec.
            _file_systems[key] = _connect(url)
        return _file_systems[key]


def _connect(url: str) -> Any:
    parts = urlsplit(url)
    try:
        return fsspec.core.url_to_fs(f"{parts.scheme}://{parts.netloc}/", skip_instance_cache=True)[0]
    except RuntimeError as e:
        if "No NameNode hosts found" not in str(e):
            raise
        raise StoreError(
            f"{url}: {parts.netloc} is not a name service that HADOOP_CONF_DIR knows. {_ADVICE}, or name a NameNode with its "
            f"port: hdfs://{parts.netloc}:8020"
        ) from e


def _remote(url: str, call: Callable[[], T]) -> T:
    """What `call` returns, or FileNotFoundError or StoreError naming the URL.

    hdfs-native waits for a NameNode that has stopped answering for ever, so the call has a thread of its own, which is given up.
    """
    outcome: SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = SimpleQueue()

    def run() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:  # hdfs-native's panics are no Exceptions
            outcome.put((None, error))

    threading.Thread(target=run, name=f"remote-{url}", daemon=True).start()
    try:
        value, error = outcome.get(timeout=REMOTE_TIMEOUT_S)
    except Empty:
        raise StoreError(f"{url}: no answer within {REMOTE_TIMEOUT_S:g} s. {_ADVICE}") from None
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(errno.ENOENT, "no such file", url) from error
    if isinstance(error, StoreError):
        raise error
    if error is not None:
        # A NameNode's refusal comes with its whole stack trace.
        raise StoreError(f"{url}: {type(error).__name__}: {str(error).partition(chr(10))[0]}. {_ADVICE}") from error
    return value  # type: ignore[return-value]  # there is a value where there is no error


def _scheme(url: str) -> str:
    return urlsplit(url).scheme


def _local_path(url: str) -> str:
    """Hadoop writes file:/a, file:///a and file://localhost/a for the same file, and encodes nothing."""
    path = url.removeprefix("file:")
    return path[path.index("/", 2) :] if path.startswith("//") else path

"""Keeps the clients of remote file systems, one in each process for each scheme, host and login. Calls go through `remote`."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

import fsspec

from walferry.base.hosts import unreachable
from walferry.base.security.gssapi import KerberosError
from walferry.base.security.login import Kerberos
from walferry.base.security.waiting import in_background
from walferry.hbase.files.errors import HdfsLoginFailed, NoActiveNameNode, NoFileRight, StoreError
from walferry.hbase.files.failover import no_active, preferred
from walferry.hbase.files.hdfs import login_problem, new_file_system
from walferry.hbase.files.logins import HDFS_SCHEMES, login_at
from walferry.hbase.files.namenodes import namenodes, path_of, server_of

MOST_KEPT = 64  # the latest clients. Each has threads, and a peer cluster may name another host for each load
REMOTE_TIMEOUT_SECONDS = 120.0  # for one request; longer than a NameNode's failover takes
_ADVICE = "Check wal_root and the file system's settings (HADOOP_CONF_DIR)"

_RIGHTS = (
    "WALs, oldWALs and archive belong to HBase's own user, and its master sets their mode to 700 at each start: use a principal "
    "with the short name of that user (often hbase), or see docs/secured-hdfs.md"
)
_LOGINS = (
    "See whether the keytab holds the principal's present key (klist -kt), whether clocks are right, and whether krb5.conf has "
    "rdns = false and dns_canonicalize_hostname = false, as there are tickets for the NameNodes' own names alone; the next try "
    "takes new ones"
)
_NO_ACTIVE = (
    "See why none has taken over: hdfs haadmin -getAllServiceState, and the logs of NameNodes, JournalNodes and failover "
    "controllers. Nothing is lost, and once one is active the next try goes on"
)
_OF_LOGINS = ("GSSAPIError", "SASLError", "SaslException", "GSS initiate failed", "NoSASLMechanism", "InvalidToken")
_OF_FAILOVERS = ("StandbyException", "IOError")

_Key = tuple[int, str, str, Kerberos | None]
_file_systems: dict[_Key, Any] = {}
_file_systems_lock = threading.Lock()

T = TypeVar("T")


def file_system(url: str) -> Any:
    """Return fsspec's file system for a URL: one in a process for each scheme, host and login, with its connections.

    Raises HdfsLoginFailed, StoreError.
    """
    parts = urlsplit(url)
    if parts.scheme not in HDFS_SCHEMES:
        with _file_systems_lock:
            other = (os.getpid(), parts.scheme, parts.netloc, None)
            if other not in _file_systems:
                # fsspec's own cache would keep one file system for each thread, for ever.
                # The URL has no path here: fsspec would interpret "::" in it, as in the name of an IPv6 host's folder.
                root = f"{parts.scheme}://{parts.netloc}/"
                _file_systems[other] = fsspec.core.url_to_fs(root, skip_instance_cache=True)[0]
            return _file_systems[other]
    key = (os.getpid(), parts.scheme, parts.netloc, login_at(url))  # connections do not survive a fork
    system = _file_systems.get(key)
    if system is not None and ((tickets := system.client.tickets) is None or time.time() < tickets.renew_at):
        return system
    if why := unreachable(namenodes(url)):
        raise StoreError(f"{url}: {why}. {_ADVICE}")  # hdfs-native would try for ever
    if why := login_problem(url):
        raise HdfsLoginFailed(f"{url}: {why}")
    made = _hdfs(url)
    with _file_systems_lock:
        _file_systems.pop(key, None)
        _file_systems[key] = made
        if len(_file_systems) > MOST_KEPT:
            del _file_systems[next(iter(_file_systems))]  # open files keep their client
    return made


def _hdfs(url: str) -> Any:
    name = server_of(url)
    try:
        return new_file_system(url, preferred(url))
    except KerberosError as error:
        raise HdfsLoginFailed(f"{url}: {error}") from error
    except RuntimeError as error:
        if not name:
            raise StoreError(
                f"{url} names no NameNode, and HADOOP_CONF_DIR has no fs.defaultFS of {scheme(url)}://. {_ADVICE}, or write "
                f"hdfs://<NameNode>:8020{path_of(url)}"
            ) from error
        if "No NameNode hosts found" not in str(error):
            raise
        raise StoreError(
            f"{url}: {name} is not a name service that HADOOP_CONF_DIR knows. {_ADVICE}, or name a NameNode with its port: "
            f"hdfs://{name}:8020"
        ) from error


def _forget(url: str) -> None:
    """Drop a URL's client, so that the next use makes a new one.

    The old client's tickets may be for an old key of a server, or it may wait for a NameNode that is no longer active.
    """
    parts = urlsplit(url)
    with _file_systems_lock:
        _file_systems.pop((os.getpid(), parts.scheme, parts.netloc, login_at(url)), None)


def _failed(url: str, error: BaseException) -> StoreError:
    """Return the error for a failed call. Of a NameNode's refusal, which comes with its stack trace, keep the first line."""
    text = str(error).partition("\n")[0].partition("\\n")[0]
    if isinstance(error, RuntimeError) and scheme(url) in HDFS_SCHEMES:
        if "Permission denied" in text:
            return NoFileRight(f"{url}: {text[text.index('Permission denied') :]}. {_RIGHTS}")
        if any(word in text for word in _OF_LOGINS):
            _forget(url)
            who = login_at(url)
            as_whom = f" as {who.principal}, keytab {who.keytab}" if who is not None else ""
            return HdfsLoginFailed(f"{url}: no login{as_whom}: {text}. {_LOGINS}")
    if isinstance(error, OSError) or any(word in text for word in _OF_FAILOVERS):
        return _without_namenode(url, f"{type(error).__name__}: {text}")
    return StoreError(f"{url}: {type(error).__name__}: {text}. {_ADVICE}")


def _without_namenode(url: str, otherwise: str) -> StoreError:
    """Return the error that no NameNode is active if that is so, and else an error with the text `otherwise`."""
    if scheme(url) in HDFS_SCHEMES:
        _forget(url)
        if why := no_active(url):
            return NoActiveNameNode(f"{url}: {why}. {_NO_ACTIVE}")
    return StoreError(f"{url}: {otherwise}. {_ADVICE}")


def remote(url: str, call: Callable[[], T]) -> T:
    """Return the result of `call`, or raise FileNotFoundError or StoreError with the URL.

    hdfs-native waits for ever for a NameNode that has stopped answering. So the call has a thread of its own, which is abandoned
    after REMOTE_TIMEOUT_SECONDS.
    """
    outcome = in_background(call, f"remote-{url}")
    try:
        error = outcome.exception(REMOTE_TIMEOUT_SECONDS)
    except TimeoutError:
        raise _without_namenode(url, f"no answer within {REMOTE_TIMEOUT_SECONDS:g} s") from None
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(errno.ENOENT, "no such file", url) from error
    if error is not None and not isinstance(error, StoreError):
        raise _failed(url, error) from error
    return outcome.result()


def at(url: str, call: Callable[[Any, str], T]) -> T:
    """Do the same as `remote` for a call that gets the URL's file system, and its path there."""
    return remote(url, lambda: call(*system_and_path(url)))


def system_and_path(url: str) -> tuple[Any, str]:
    """Return a URL's file system, as `file_system` does, and its path there."""
    system = file_system(url)
    return system, local_path(url) if scheme(url) == "file" else system._strip_protocol(url)


def scheme(url: str) -> str:
    return urlsplit(url).scheme


def local_path(url: str) -> str:
    """Return a URL's local path. Hadoop writes file:/a, file:///a and file://localhost/a for one file, and encodes nothing."""
    path = url.removeprefix("file:")
    return path[path.index("/", 2) :] if path.startswith("//") else path

"""Renames of files and folders, which never replace or enter what is there already."""

from __future__ import annotations

import errno
import os
import time

from walferry.hbase.files.clients import file_system, local_path, remote, scheme
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.logins import HDFS_SCHEMES


def exists(url: str) -> bool:
    """Whether there is a file or folder. Raises StoreError."""
    if scheme(url) == "file":
        return os.path.lexists(local_path(url))
    return remote(url, lambda: bool(file_system(url).exists(url)))


def rename(source: str, target: str) -> None:
    """Rename a file or folder within its file system; the target's parent must be there.

    Raises FileNotFoundError if there is no source, StoreError, also if the target exists.
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
    system = file_system(source)
    remote(source, lambda: system.client.rename(system._strip_protocol(source), system._strip_protocol(target), False))


def make_folder(url: str) -> None:
    """Make a folder with its parents; one that is there stays. Raises StoreError."""
    path = local_path(url) if scheme(url) == "file" else url
    remote(url, lambda: file_system(url).makedirs(path, exist_ok=True))


def delete_folder(url: str) -> None:
    """Delete a folder with all that is in it; one that is gone is passed over. Raises StoreError."""
    if exists(url):
        path = local_path(url) if scheme(url) == "file" else url
        remote(url, lambda: file_system(url).rm(path, recursive=True))


def touch(url: str) -> None:
    """Set a file's time to now, from which HBase's cleaners count. Raises FileNotFoundError, StoreError."""
    if scheme(url) == "file":
        os.utime(local_path(url))
        return
    system, now_ms = file_system(url), int(time.time() * 1000)
    remote(url, lambda: system.client.set_times(system._strip_protocol(url), now_ms, now_ms))

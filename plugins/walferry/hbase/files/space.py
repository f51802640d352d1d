"""Finds out the disk space of the file system behind a URL.

hdfs-native has no call for it, so this asks a NameNode directly. Object stores do not report any limit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from walferry.hbase.files.clients import at, local_path, scheme
from walferry.hbase.files.errors import StoreError
from walferry.hbase.files.hdfs import ask
from walferry.hbase.files.logins import HDFS_SCHEMES
from walferry.hbase.files.namenode import NO_ANSWER, NameNode
from walferry.hbase.files.namenodes import namenodes


@dataclass(frozen=True)
class Space:
    """The size of a file system and its free space, in bytes on its disks."""

    capacity: int
    remaining: int


def space_at(url: str) -> Space:
    """Return the space of this folder's file system. Raises StoreError with the reason if it is not known."""
    kind = scheme(url)
    if kind == "file":
        try:
            disk = os.statvfs(local_path(url))
        except OSError as error:
            raise StoreError(f"{url}: {error.strerror}") from error
        return Space(disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize)
    if kind not in HDFS_SCHEMES:
        raise StoreError(f"{url}: {kind}:// has no disk space that can be asked for")
    problems = []
    for host, port in namenodes(url):
        try:
            found = ask(host, port, url, NameNode.space)
            return Space(found.capacity, found.remaining)
        except NO_ANSWER as error:
            problems.append(f"NameNode {host}:{port}: {error}")
    raise StoreError(f"{url}: {'; '.join(problems) or 'its NameNodes are not known'}")


def bytes_on_disk(url: str) -> tuple[int, int]:
    """Return the bytes of all files in a folder, and the bytes that all their copies take on the disks. Raises StoreError."""
    if scheme(url) not in HDFS_SCHEMES:
        raise StoreError(f"{url}: only HDFS keeps copies that can be counted")
    used = at(url, lambda system, path: system.client.get_content_summary(path))
    return int(used.length), int(used.space_consumed)

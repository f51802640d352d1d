"""Finds out, before a run, whether this user has the rights that Walferry needs on a cluster's folders on HDFS.

WALs, oldWALs and archive belong to the user that HBase runs as. HBase's master gives them the mode 700 at each start, unless
hbase.rootdir.perms and hbase.wal.dir.perms say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from walferry.hbase.files.hdfs import ask
from walferry.hbase.files.namenode import NO_ANSWER, NameNodeRefused
from walferry.hbase.files.namenodes import namenodes, path_of
from walferry.hbase.files.store import OLD_WALS, WALS

READ, WRITE = 5, 7  # a folder's bits: list and enter; and also make, move and delete its contents
_WHAT = {READ: "read", WRITE: "write to"}


@dataclass(frozen=True)
class Need:
    """A folder (URL), the mode in which Walferry uses it (READ, WRITE), and the purpose."""

    folder: str
    mode: int
    why: str


def needs_of(
    wal_root: str, *, archive: str | None = None, quarantine: str | None = None, peers_root: str | None = None
) -> list[Need]:
    """List the needs of shipping in a source's folders (URLs)."""
    found = [
        Need(f"{wal_root}/{WALS}", READ, "to read WALs that are not archived yet"),
        Need(f"{wal_root}/{OLD_WALS}", READ, "to read archived WALs"),
    ]
    found += [Need(peers_root, READ, "to read the peers")] if peers_root else []
    found += [Need(archive, WRITE, "to keep shipped WALs")] if archive else []
    return found + ([Need(quarantine, WRITE, "to put broken WALs aside")] if quarantine else [])


def missing_rights(needs: Sequence[Need]) -> str | None:
    """Return one message with this user's missing rights and the remedy. None if nothing is known to be missing.

    This checks only folders on hdfs://, each with its cluster's login, and skips folders that do not exist.
    """
    missing = [line for need in needs if urlsplit(need.folder).scheme == "hdfs" and (line := _refusal(need))]
    if not missing:
        return None
    return (
        f"rights are missing on HDFS: {'; '.join(missing)}. Use a principal whose short name is the user that HBase runs as "
        "(often hbase), or give this user the rights and keep HBase from taking them back: docs/secured-hdfs.md"
    )


def _refusal(need: Need) -> str | None:
    for host, port in namenodes(need.folder):
        try:
            ask(host, port, need.folder, lambda namenode: namenode.check_access(path_of(need.folder), need.mode))
        except NameNodeRefused as error:
            if "StandbyException" in str(error):
                continue
            denied = "AccessControlException" in str(error)
            return f"this user may not {_WHAT[need.mode]} {need.folder}, {need.why} ({error})" if denied else None
        except NO_ANSWER:
            continue  # the later use of the folder reports it
        return None
    return None

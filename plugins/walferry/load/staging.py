"""Checks and deletes the folders at the peer cluster into which files are put before it loads them.

A server makes one folder for each load, <hbase.rootdir>/staging/<user>__<table>__<number>, with a random number of 320 bits in
base 32 (SecureBulkLoadManager). Walferry accepts a folder's name from a peer cluster, or from a note in ZooKeeper, only in this
form. Otherwise anyone who can write to ZooKeeper could have a peer cluster delete any of its data.

If a load's folder is deleted, the load puts nothing on top of later writes, whenever its call reaches a server, and however long
the server takes. HRegion.bulkLoadHFiles flushes the region, which gives the load its sequence number, and only then moves files
out of the folder (branch-2.6, branch-1). So

    the folder is gone before a file is moved     the call fails. It may have loaded the files of other families before
    a file is moved before the folder is gone     it has its number by then. Later writes get larger numbers, and count, even if
                                                  the server opens the file, so that readers see it, much later

An answered order to delete is carried out: the NameNode takes the whole folder out of its tree in one step.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

from walferry.base.errors import WalferryError
from walferry.base.security.login import Login
from walferry.hbase.files.clients import scheme
from walferry.hbase.files.logins import HDFS_SCHEMES, lend
from walferry.hbase.names import family_folder, is_file_name
from walferry.hbase.rpc import bulk_load
from walferry.hbase.rpc.connection import Connection
from walferry.hbase.rpc.errors import RpcError
from walferry.hbase.tables.errors import MissingTable, RegionUnavailable
from walferry.hbase.tables.scan import Patience, RegionPlace
from walferry.load.errors import NotLoaded, StaleLoad, is_refusal

STAGING = "staging"  # HConstants.BULKLOAD_STAGING_DIR_NAME
_RANDOM = "[0-9a-v]{40,64}"  # a number has fewer digits once in 2^120 times
MAX_URL_CHARS = 4000  # HDFS allows no longer paths
PATIENCE_SECONDS = 180.0  # for a region that moves, or a server that restarts

FOLDERS_ADVICE = "Check the peer cluster's hbase.rootdir, and its RegionServers"  # advice


def new_folder(
    server: Connection, table: str, region: bytes, source_root: str, login: Login, note: Callable[[str], object]
) -> str:
    """Have a server make a folder for a load into one of its regions, and `note` its URL before any file is put there.

    Returns the URL. If noting fails, the server deletes the empty folder, as far as it answers. Raises RpcError, and the errors
    of `check_form` and `note`.
    """
    token = bulk_load.prepare(server, table, region)
    check_form(token, table, source_root)  # before it is noted, because noted folders get deleted
    try:
        note(token)
    except WalferryError:
        with suppress(RpcError):
            bulk_load.cleanup(server, region, token)
        raise
    log_in_to(token, login)
    return token


def check_form(token: str, table: str, source_root: str) -> None:
    """Raise NotLoaded if a folder that the peer cluster names is not safe to write into."""
    if problem := wrong_folder(token, table, source_root):
        raise NotLoaded(f"the peer cluster wants files in {token[:200]!r}, {problem}", FOLDERS_ADVICE)


def wrong_folder(token: str, table: str, source_root: str) -> str | None:
    """Return why files must not be written into a folder that a peer cluster names; None if they may.

    `source_root` is the URL of the source's hbase.rootdir. A server makes a new folder, named after the user, the table and a
    random number. The folder may lie on the source's own HDFS, under another name of that HDFS. So no folder below the path of
    the source's root is accepted except its staging folders.
    """
    if not _is_url(token):
        return "which is not a URL"
    if scheme(token) not in HDFS_SCHEMES and not (scheme(token) == scheme(source_root) == "file"):
        return "which is not on HDFS"
    folders, root = _folders(token), _folders(source_root)
    named = re.fullmatch(rf".+__{re.escape(table.replace(':', '_'))}__{_RANDOM}", folders[-1]) and folders[-2:-1] == [STAGING]
    within_root = folders[: len(root)] == root and folders[len(root) : len(root) + 1] != [STAGING]
    if not named or within_root or not all(map(is_file_name, folders)):
        return "which is not a folder that HBase makes for them"
    return None


def _is_url(token: str) -> bool:
    """Return whether each client can parse a URL, and it can be shown and logged as it is."""
    try:
        _ = urlsplit(token).port
    except ValueError:
        return False
    return token.isprintable() and len(token) <= MAX_URL_CHARS


def delete_noted(place: RegionPlace, token: str, region: str, source_root: str) -> str | None:
    """Have the peer cluster delete a noted folder that was made for a load into `region` (its full name, in hexadecimal digits).

    If no load can have noted this folder, returns the reason and asks nothing. Raises RpcError, RegionUnavailable.
    """
    name = region_name(region, place.table)
    if name is None:
        return f"for {region[:100]!r}, which is not the name of a region of the table"
    if problem := wrong_folder(token, place.table, source_root):
        return f"{token[:200]!r}, {problem}"
    target = place.locate(name.partition(b",")[2].rpartition(b",")[0])
    bulk_load.cleanup(place.connection(target), target.name, token)
    return None


def delete_surely(place: RegionPlace, token: str, region: str, source_root: str, patience_seconds: float) -> str | None:
    """Do the same as `delete_noted`, trying again for a while. Raises StaleLoad if the folder may still exist then."""
    patience = Patience(patience_seconds)
    while True:
        try:
            return delete_noted(place, token, region, source_root)
        except MissingTable:  # then nothing can be loaded into it
            return None
        except (RpcError, RegionUnavailable) as error:
            if is_refusal(error) or not patience.wait():
                raise StaleLoad(
                    f"a load that was killed has left {token} at the peer cluster, which does not delete it: {error}",
                    "Until then nothing is shipped, as that load could still come, above what is shipped later. Run again once "
                    "the peer cluster's servers are well",
                ) from error


def region_name(noted: str, table: str) -> bytes | None:
    """Return the name <table>,<start>,<id>… of the table's region that is noted in hexadecimal digits; None if it is not one."""
    try:
        name = bytes.fromhex(noted)
    except ValueError:
        return None
    return name if name.startswith(f"{table},".encode()) and name.count(b",") > 1 else None


def log_in_to(folder: str, login: Login) -> None:
    """Use a folder of the peer cluster with its login; only this folder, because a peer cluster may name any place."""
    lend(folder, login.kerberos)


def store_folder(token: str, table: str, region: str, family: bytes) -> str:
    """Return a family's folder in the region with this encoded name (HRegionFileSystem), from a folder made for a load."""
    root = token.rpartition("/")[0].removesuffix(f"/{STAGING}")
    namespace, _, name = table.rpartition(":")
    return f"{root}/data/{namespace or 'default'}/{name}/{region}/{family_folder(family)}"


def _folders(url: str) -> list[str]:
    """Return the names in the path of a URL. HDFS takes `?` and `#` as parts of names."""
    path = url.removeprefix(f"{scheme(url)}:")
    return (path.partition("/")[2].partition("/")[2].partition("/")[2] if path.startswith("//") else path[1:]).split("/")

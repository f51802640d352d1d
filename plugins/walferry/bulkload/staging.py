"""The folders at the slave into which files are put before it loads them."""

from __future__ import annotations

import re

from walferry.files.clients import scheme
from walferry.files.logins import HDFS_SCHEMES, lend
from walferry.names import is_file_name
from walferry.security.login import Login

SLAVES_FOLDERS = "Check the slave's hbase.rootdir, and its RegionServers"  # advice


def wrong_folder(token: str, table: str, source_root: str) -> str | None:
    """Say why nothing should be written into a folder that a slave names; None if it may be.

    `source_root` is the URL of the source's hbase.rootdir. A server makes a new folder, named after the user, the table and a
    random number. It may lie on the source's HDFS too, by whatever name that goes, so none below a path of the source's root is
    taken but those for staging.
    """
    if scheme(token) not in HDFS_SCHEMES and not (scheme(token) == scheme(source_root) == "file"):
        return "which is not on HDFS"
    folders, root = _folders(token), _folders(source_root)
    named = re.fullmatch(rf".+__{re.escape(table.replace(':', '_'))}__[0-9a-v]+", folders[-1])
    within_root = folders[: len(root)] == root and "staging" not in "".join(folders[len(root) : len(root) + 1])
    if not named or within_root or not all(map(is_file_name, folders)):
        return "which is not a folder that HBase makes for them"
    return None


def log_in_to(token: str, login: Login) -> None:
    """Use a folder that the slave has made with the slave's login; only that one, because a slave may name any place."""
    lend(token, login.kerberos)


def _folders(url: str) -> list[str]:
    """The names in the path of a URL. HDFS takes `?` and `#` as parts of names."""
    path = url.removeprefix(f"{scheme(url)}:")
    return (path.partition("/")[2].partition("/")[2].partition("/")[2] if path.startswith("//") else path[1:]).split("/")

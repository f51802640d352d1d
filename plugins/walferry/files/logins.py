"""As whom this process uses which part of which HDFS.

The functions for files take URLs, and one process works on the files of several clusters, as different principals of different
realms. So whoever knows a cluster's login says once, for each of its folders, that everything below is used as that principal.
The registry is the process's own. A process that was forked from it has the same.
"""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

from walferry.security.login import Kerberos

HDFS_SCHEMES = ("hdfs", "viewfs")

_logins: dict[str, Kerberos | None] = {}  # by the URL of a folder, without a slash at its end
_lock = threading.Lock()


def log_in(folder: str, kerberos: Kerberos | None) -> None:
    """From now on use everything below a folder (a URL) as this principal, in this process.

    None: as the Hadoop configuration and the environment say. Nothing is connected to. Folders that are not on HDFS are passed
    over.
    """
    if urlsplit(folder).scheme in HDFS_SCHEMES:
        with _lock:
            _logins[folder.rstrip("/")] = kerberos


def login_at(url: str) -> Kerberos | None:
    """As whom a URL is used: by the login of the innermost folder that it is in.

    What is in none of the folders is used as the first one of the same file system that was logged in to.
    """
    with _lock:
        known = dict(_logins)
    folder = url.rstrip("/")
    while folder:
        if folder in known:
            return known[folder]
        folder = folder.rpartition("/")[0]
    parts = urlsplit(url)
    same = f"{parts.scheme}://{parts.netloc}"
    return next((kerberos for each, kerberos in known.items() if f"{each}/".startswith(f"{same}/")), None)

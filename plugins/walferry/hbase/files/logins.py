"""Keeps the login with which this process uses each part of each HDFS.

The functions for files take URLs, and one process works on the files of several clusters, as different principals of different
realms. So the code that knows a cluster's login registers it once for each of its folders, for everything below the folder. A
peer cluster names folders too, for single loads: such a name must not decide which login any other folder uses. Each process has
its own registry, and a forked process inherits it.
"""

from __future__ import annotations

import threading
from urllib.parse import urlsplit

from walferry.base.security.login import Kerberos

HDFS_SCHEMES = ("hdfs", "viewfs")
MOST_LENT = 1000  # far more than a process loads at a time

_logins: dict[str, Kerberos | None] = {}  # by the URL of a folder, without a slash at its end
_lent: dict[str, Kerberos | None] = {}  # the same for folders that peer clusters have named, the latest last
_lock = threading.Lock()


def log_in(folder: str, kerberos: Kerberos | None) -> None:
    """Use this login from now on for everything below a folder (a URL), in this process.

    None means the login of the Hadoop configuration and the environment. This does not connect. It ignores folders outside HDFS.
    """
    if urlsplit(folder).scheme in HDFS_SCHEMES:
        with _lock:
            _logins[folder.rstrip("/")] = kerberos


def lend(folder: str, kerberos: Kerberos | None) -> None:
    """Use this login for a folder that a peer cluster has made for one load, and for nothing outside that folder.

    The latest MOST_LENT folders are remembered.
    """
    if urlsplit(folder).scheme in HDFS_SCHEMES:
        with _lock:
            _lent.pop(folder := folder.rstrip("/"), None)
            _lent[folder] = kerberos
            if len(_lent) > MOST_LENT:
                del _lent[next(iter(_lent))]


def login_at(url: str) -> Kerberos | None:
    """Return the login for a URL: the login of the innermost registered folder that contains it.

    A URL outside all folders gets the login of the folder on the same file system that was registered first.
    """
    parts = urlsplit(url)
    same = f"{parts.scheme}://{parts.netloc}"
    with _lock:
        if (found := _innermost(url)) is not None:
            known, folder = found
            return known[folder]
        return next((kerberos for each, kerberos in _logins.items() if f"{each}/".startswith(f"{same}/")), None)


def is_lent(url: str) -> bool:
    """Return whether a URL is in a folder that a peer cluster has named."""
    with _lock:
        found = _innermost(url)
        return found is not None and found[0] is _lent


def _innermost(url: str) -> tuple[dict[str, Kerberos | None], str] | None:
    """Return the innermost registered folder that contains a URL, after the registry that contains the folder."""
    folder = url.rstrip("/")
    while folder:
        for known in (_logins, _lent):
            if folder in known:
                return known, folder
        folder = folder.rpartition("/")[0]
    return None
